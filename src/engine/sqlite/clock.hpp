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

/// Which boot-time clock a deadline runs on. Readings of two different ones must not be compared: each boot
/// starts at zero.
struct ClockIdentity {
  std::string boot_id;
  /// The inode of the time namespace in which the clock is read: always the initial one, whose clock is the
  /// kernel's own, or 0 on a kernel without them. Older builds read the clock of their own namespace.
  std::int64_t time_namespace = 0;
  /// Whether the boot id is the kernel's own. Container managers mount another one over it, and only two that
  /// are the kernel's own tell a reboot.
  bool is_kernels = true;

  friend bool operator==(const ClockIdentity& one, const ClockIdentity& other) {
    return one.boot_id == other.boot_id && one.time_namespace == other.time_namespace;
  }
};

/// The time as the engine sees it; tests replace it. Functions are called from any thread.
struct Clock {
  std::function<std::int64_t()> boot_ms;  ///< the kernel's CLOCK_BOOTTIME: decides whether a lock is live
  std::function<std::int64_t()> wall_ms;  ///< since the epoch: for display, and across reboots

  [[nodiscard]] std::chrono::milliseconds boot() const { return std::chrono::milliseconds(boot_ms()); }
  [[nodiscard]] WallTime wall() const { return WallTime(std::chrono::milliseconds(wall_ms())); }
  ClockIdentity identity;
};

/// This machine's, the same in every time namespace. ServiceUnavailable if /proc does not say which boot this
/// is, or how far this time namespace is from the kernel's clock.
[[nodiscard]] Result<Clock> machine_clock();

/// How far CLOCK_BOOTTIME is ahead of the kernel's own, from the text of /proc/self/timens_offsets; nothing
/// if the text does not say.
[[nodiscard]] std::optional<std::chrono::nanoseconds> boot_time_offset(std::string_view timens_offsets);

}  // namespace holdfast::sqlite
