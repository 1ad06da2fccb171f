#pragma once

#include <algorithm>
#include <chrono>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <stop_token>
#include <string>

namespace holdfast::sqlite {

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
