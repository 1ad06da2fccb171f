#pragma once

#include <chrono>
#include <holdfast/clock.hpp>
#include <holdfast/lock_types.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string_view>

namespace holdfast::locks {

/// How long before the end of its proof a holder is notified, so that it can stop in time.
class Notice {
 public:
  /// The default: a sixth of the lease, or of the longest hold if that is shorter, at most 5 s.
  Notice() noexcept = default;
  /// `wanted`: what the holder asks for; empty: the default. `max_hold`: zero: no limit. `lease_name` is what
  /// the caller calls the length of the lease. InvalidArgument if it is negative, or more than a third of the
  /// shorter of both: renewals would have too little time.
  [[nodiscard]] static Result<Notice> of(std::optional<std::chrono::milliseconds> wanted,
                                         std::chrono::milliseconds lease, std::chrono::milliseconds max_hold,
                                         std::string_view lease_name);

  /// The notice for a lease of that length, which may be shorter than the one that `of` checked, and for a
  /// hold of at most `longest_hold` (zero: no limit). Never zero: the signal reaches the holder through a
  /// thread that has to wake up first.
  [[nodiscard]] BootClock::duration before_end(
      std::chrono::milliseconds lease, std::chrono::milliseconds longest_hold = {}) const noexcept;

 private:
  std::optional<std::chrono::milliseconds> wanted_;
};

/// How long an extend or a renewal may take before the holder is at risk.
[[nodiscard]] constexpr BootClock::duration risk_delay(std::chrono::milliseconds lease) noexcept {
  return BootClock::duration(lease) / 6;
}

}  // namespace holdfast::locks
