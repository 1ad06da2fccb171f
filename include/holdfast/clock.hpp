#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/export.hpp>

namespace holdfast {

/// The machine's CLOCK_BOOTTIME: never set back or forward, and it goes on counting while the machine is
/// suspended. Every deadline of a holder runs on it, so a laptop that slept does not believe in an old lease.
struct HOLDFAST_EXPORT BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  [[nodiscard]] static time_point now() noexcept;
};

using BootTime = BootClock::time_point;

/// A wall-clock time of an engine, such as the expiry of a lease, in whole milliseconds.
using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

/// "No deadline": later than any clock reading. Arithmetic on it saturates with `saturating_add`.
inline constexpr BootTime never = BootTime::max();

[[nodiscard]] constexpr BootTime saturating_add(BootTime at, BootClock::duration by) noexcept {
  return by > BootClock::duration::zero() && at > never - by ? never : at + by;
}

/// `now + by` for any by, `milliseconds::max()` included (it overflows when converted to nanoseconds).
[[nodiscard]] constexpr BootTime saturating_add(BootTime at, std::chrono::milliseconds by) noexcept {
  constexpr auto widest = std::chrono::floor<std::chrono::milliseconds>(BootClock::duration::max());
  return by >= widest ? never : saturating_add(at, BootClock::duration(by));
}

}  // namespace holdfast
