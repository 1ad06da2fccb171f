#pragma once

#include <cstdint>

namespace holdfast::core {

/// A record that is still present counts as live for this long after its expiry.
inline constexpr std::int64_t time_tolerance_ms = 1000;

/// The one liveness predicate, for a record that is present though the store should have dropped it at its
/// expiry (PERSISTed by hand, restored from a backup). Its twin in Lua is tested against it at the edges.
[[nodiscard]] constexpr bool is_live(std::int64_t expires_at_ms, std::int64_t now_ms) noexcept {
  return expires_at_ms > now_ms - time_tolerance_ms;
}

/// For engines that drop records themselves: at its expiry a record is gone, as Redis' PX does it.
template <class Time>
[[nodiscard]] constexpr bool is_due(Time expires_at, Time now) noexcept {
  return now >= expires_at;
}

}  // namespace holdfast::core
