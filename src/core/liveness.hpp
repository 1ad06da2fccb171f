#pragma once

namespace holdfast::core {

/// For engines that drop records themselves: at its expiry a record is gone, as Redis' PX does it.
template <class Time>
[[nodiscard]] constexpr bool is_due(Time expires_at, Time now) noexcept {
  return now >= expires_at;
}

}  // namespace holdfast::core
