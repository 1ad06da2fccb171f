#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace holdfast::cli {

/// How long calls of one kind took. Not thread-safe.
class Samples {
 public:
  void add(std::chrono::nanoseconds took) {
    all_.push_back(took);
    is_sorted_ = false;
  }
  void add(const Samples& others);

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }
  /// The smallest sample that at least this part (0 to 1) of all samples do not exceed. There must be a
  /// sample.
  [[nodiscard]] std::chrono::nanoseconds percentile(double part) const;

 private:
  mutable std::vector<std::chrono::nanoseconds> all_;
  mutable bool is_sorted_ = true;
};

/// Spreads calls evenly over time: at most so many per second, on average. A thread that was delayed may
/// catch up by a few calls, but never by those of a long pause.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  Pace(double per_second, Clock::time_point start) noexcept
      : period_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 / per_second))),
        next_(start) {}

  /// When the next call may be made, given that it is now so late.
  [[nodiscard]] Clock::time_point next_turn(Clock::time_point now) noexcept;

 private:
  static constexpr std::chrono::milliseconds most_overdue{10};

  Clock::duration period_;
  Clock::time_point next_;
};

}  // namespace holdfast::cli
