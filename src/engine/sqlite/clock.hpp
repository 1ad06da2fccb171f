#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::sqlite {

/// The boot-time clock that a deadline runs on. Readings of two different clocks must not be compared: each
/// boot starts at zero.
struct ClockIdentity {
  std::string boot_id;
  /// The inode of the time namespace in which the clock is read: always the initial one, whose clock is the
  /// kernel's own, or 0 on a kernel without them. Older builds read the clock of their own namespace.
  std::int64_t time_namespace = 0;
  /// Whether the boot id is the kernel's own. Container managers mount another one over it, and only a
  /// difference of two kernel ids proves a reboot.
  bool is_kernels = true;

  friend bool operator==(const ClockIdentity& one, const ClockIdentity& other) {
    return one.boot_id == other.boot_id && one.time_namespace == other.time_namespace;
  }
};

/// The engine's clocks; tests replace them. Functions are called from any thread.
struct Clock {
  std::function<std::int64_t()> boot_ms;  ///< the kernel's CLOCK_BOOTTIME: decides whether a lock is live
  std::function<std::int64_t()> wall_ms;  ///< since the epoch: for display, and across reboots

  [[nodiscard]] std::chrono::milliseconds boot() const { return std::chrono::milliseconds(boot_ms()); }
  [[nodiscard]] WallTime wall() const { return WallTime(std::chrono::milliseconds(wall_ms())); }
  ClockIdentity identity;
};

/// This machine's, the same in every time namespace. ServiceUnavailable if /proc does not provide the boot
/// id, or the offset of this time namespace from the kernel's clock.
[[nodiscard]] Result<Clock> machine_clock();

/// How far CLOCK_BOOTTIME is ahead of the kernel's own, from the text of /proc/self/timens_offsets; empty if
/// the text does not contain it.
[[nodiscard]] std::optional<std::chrono::nanoseconds> boot_time_offset(std::string_view timens_offsets);

}  // namespace holdfast::sqlite
