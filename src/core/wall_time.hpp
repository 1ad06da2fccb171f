#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>

namespace holdfast::core {

// Times are stored and sent as a number: milliseconds since the epoch.

[[nodiscard]] constexpr std::int64_t to_ms(WallTime time) noexcept {
  return time.time_since_epoch().count();
}

[[nodiscard]] constexpr WallTime from_ms(std::int64_t ms) noexcept {
  return WallTime(std::chrono::milliseconds(ms));
}

}  // namespace holdfast::core
