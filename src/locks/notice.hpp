#pragma once

#include <algorithm>
#include <chrono>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string_view>

namespace holdfast::locks {

/// How long before the end of its proof a holder is notified, so that it can stop in time.
class Notice {
 public:
  /// The default: a sixth of the lease, or of the longest hold if that is shorter, at most 5 s.
  constexpr Notice() noexcept = default;
  /// What the holder asks for, which `refusal` accepted; empty: the default.
  constexpr explicit Notice(std::optional<std::chrono::milliseconds> wanted) noexcept : wanted_(wanted) {}

  /// Returns an InvalidArgument if the notice is negative, or more than a third of the shorter of `lease` and
  /// `max_hold` (zero: no limit): renewals would have too little time. `lease_name` is what the caller calls
  /// the length of the lease.
  [[nodiscard]] static std::optional<Error> refusal(std::chrono::milliseconds wanted,
                                                    std::chrono::milliseconds lease,
                                                    std::chrono::milliseconds max_hold,
                                                    std::string_view lease_name);

  /// The notice for a lease of that length, which may be shorter than the one that was checked, and for a
  /// hold of at most `max_hold` (zero: no limit). Never zero: the signal reaches the holder through a thread
  /// that has to wake up first.
  [[nodiscard]] constexpr BootClock::duration before_end(
      std::chrono::milliseconds lease, std::chrono::milliseconds max_hold = {}) const noexcept {
    using Duration = BootClock::duration;
    using std::chrono::milliseconds;
    const Duration shortest = shorter(lease, max_hold);
    const auto wake_up = std::clamp<Duration>(Duration(lease) / 100, milliseconds(1), milliseconds(50));
    const auto asked = wanted_ ? std::min<Duration>(*wanted_, shortest / 3)
                               : std::min<Duration>(std::chrono::seconds(5), shortest / 6);
    return std::max(asked, wake_up);
  }

 private:
  [[nodiscard]] static constexpr std::chrono::milliseconds shorter(
      std::chrono::milliseconds lease, std::chrono::milliseconds max_hold) noexcept {
    return max_hold > std::chrono::milliseconds::zero() ? std::min(lease, max_hold) : lease;
  }

  std::optional<std::chrono::milliseconds> wanted_;
};

/// How long an extend or a renewal may take before the holder is at risk.
[[nodiscard]] constexpr BootClock::duration risk_delay(std::chrono::milliseconds lease) noexcept {
  return BootClock::duration(lease) / 6;
}

}  // namespace holdfast::locks
