#pragma once

#include <algorithm>
#include <chrono>

namespace holdfast::redis {

/// Pauses between attempts to connect. They double, with jitter, so that a thousand clients of a restarted
/// server do not reconnect in the same millisecond.
class Backoff {
 public:
  using duration = std::chrono::nanoseconds;

  /// `random` is in [0, 1).
  [[nodiscard]] duration next(double random) noexcept {
    const auto half = delay_ / 2;
    delay_ = std::min(delay_ * 2, longest);
    return half + duration(static_cast<duration::rep>(static_cast<double>(half.count()) * random));
  }
  void reset() noexcept { delay_ = shortest; }

 private:
  static constexpr duration shortest = std::chrono::milliseconds(10);
  static constexpr duration longest = std::chrono::milliseconds(500);
  duration delay_ = shortest;
};

}  // namespace holdfast::redis
