#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/export.hpp>

namespace holdfast {

/// The machine's CLOCK_BOOTTIME as a clock of std::chrono.
///
/// It is never set, and also counts while the machine is suspended. All deadlines of a holder use it, so a
/// machine that was suspended does not trust an expired lease. Its times mean nothing on another machine or
/// after a reboot.
struct HOLDFAST_EXPORT BootClock {
  using duration = std::chrono::nanoseconds;              ///< the resolution
  using rep = duration::rep;                              ///< the number type of a duration
  using period = duration::period;                        ///< the unit of a duration
  using time_point = std::chrono::time_point<BootClock>;  ///< the time since boot
  static constexpr bool is_steady = true;                 ///< it never goes back
  /// Returns the current time. One clock_gettime; never fails.
  [[nodiscard]] static time_point now() noexcept;
};

/// A time of this machine, such as a deadline.
using BootTime = BootClock::time_point;

/// A wall-clock time of an engine, such as the expiry of a lease, in whole milliseconds.
using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

/// No deadline: later than every time of the clock. Add durations with saturating_add(), which does not
/// overflow.
inline constexpr BootTime never = BootTime::max();

/// Returns `at + by`, or `never` if that is later than the type can express.
[[nodiscard]] constexpr BootTime saturating_add(BootTime at, BootClock::duration by) noexcept {
  return by > BootClock::duration::zero() && at > never - by ? never : at + by;
}

/// Returns `at + by`, or `never` if that is later than the type can express. Accepts `milliseconds::max()`,
/// which would overflow if it was converted to nanoseconds.
[[nodiscard]] constexpr BootTime saturating_add(BootTime at, std::chrono::milliseconds by) noexcept {
  constexpr auto widest = std::chrono::floor<std::chrono::milliseconds>(BootClock::duration::max());
  return by >= widest ? never : saturating_add(at, BootClock::duration(by));
}

}  // namespace holdfast
