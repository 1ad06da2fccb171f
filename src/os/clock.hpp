#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <stop_token>

namespace holdfast::os {

/// The wall clock at construction, advanced by the boot clock: later jumps of the wall clock do not affect
/// it.
class WallClock {
 public:
  [[nodiscard]] WallTime now() const noexcept {
    const auto elapsed = BootClock::now() - boot_at_start_;
    return WallTime(std::chrono::floor<std::chrono::milliseconds>(wall_at_start_ + elapsed));
  }

 private:
  BootTime boot_at_start_ = BootClock::now();
  std::chrono::nanoseconds wall_at_start_ = std::chrono::system_clock::now().time_since_epoch();
};

/// Sleeps until the time or a stop request.
void sleep_until(BootTime until, const std::stop_token& stop);

}  // namespace holdfast::os
