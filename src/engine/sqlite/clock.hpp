#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/result.hpp>
#include <string>

namespace holdfast::sqlite {

/// Which boot-time clock a deadline runs on. Readings of two different ones must not be compared: each
/// boot starts at zero, and a time namespace adds an offset of its own.
struct ClockIdentity {
  std::string boot_id;
  std::int64_t time_namespace = 0;
  friend bool operator==(const ClockIdentity&, const ClockIdentity&) = default;
};

/// The time as the engine sees it; tests replace it. Functions are called from any thread.
struct Clock {
  std::function<std::int64_t()> boot_ms;  ///< CLOCK_BOOTTIME: decides whether a lock is live
  std::function<std::int64_t()> wall_ms;  ///< since the epoch: for display, and across reboots
  ClockIdentity identity;
};

/// This machine's. ServiceUnavailable if /proc does not say which boot this is.
[[nodiscard]] Result<Clock> machine_clock();

}  // namespace holdfast::sqlite
