#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <stop_token>
#include <string>

namespace holdfast::sqlite {

/// How long to sleep before asking for the file again, for a random number from 0 to 1.
///
/// A random while of about the length of a few transactions: a writer that comes again at random is not left
/// behind by others for long, where SQLite's own ladder, which sleeps longer the longer it has waited, leaves
/// it behind for seconds. Only who has waited for longer than busy writers ever make one wait (some 50 ms:
/// then somebody keeps a transaction open) comes more rarely, so that waiting costs next to no processor
/// time.
[[nodiscard]] inline std::chrono::nanoseconds busy_pause(int attempt, double random) noexcept {
  constexpr double shortest_us = 5, spread_us = 60, longest_spread_us = 4000;
  constexpr int attempts_of_busy_writers = 400;
  const double longer = std::max(1.0, static_cast<double>(attempt) / attempts_of_busy_writers);
  const double spread = std::min(spread_us * longer * longer * longer * longer, longest_spread_us);
  return std::chrono::nanoseconds(static_cast<std::int64_t>((shortest_us + spread * random) * 1000));
}

/// How long one operation may still wait for other users of the file, and what to say when it may not.
class Patience {
 public:
  Patience(BootTime deadline, std::chrono::milliseconds busy_timeout, std::stop_token stop)
      : deadline_(deadline),
        busy_timeout_(busy_timeout),
        give_up_(saturating_add(BootClock::now(), busy_timeout)),
        stop_(std::move(stop)) {}

  [[nodiscard]] BootTime until() const noexcept { return std::min(deadline_, give_up_); }
  [[nodiscard]] bool stopped() const noexcept { return stop_.stop_requested(); }
  [[nodiscard]] bool deadline_passed() const noexcept { return BootClock::now() >= deadline_; }
  [[nodiscard]] bool over() const noexcept { return stopped() || BootClock::now() >= until(); }

  /// Requires over().
  [[nodiscard]] Error exhausted(const std::string& file) const {
    if (stopped()) return {ErrorCode::Aborted, "stopped while waiting for " + file};
    if (deadline_passed()) {
      return {ErrorCode::NetworkTimeout, "the deadline passed while waiting for other users of " + file};
    }
    return {ErrorCode::ServiceUnavailable,
            "other users kept " + file + " busy for " + std::to_string(busy_timeout_.count()) +
                " ms; try again, or find out who holds a transaction open on it"};
  }

 private:
  BootTime deadline_;
  std::chrono::milliseconds busy_timeout_;
  BootTime give_up_;
  std::stop_token stop_;
};

}  // namespace holdfast::sqlite
