#include "locks/notice.hpp"

#include <algorithm>
#include <holdfast/error.hpp>
#include <string>

namespace holdfast::locks {

using std::chrono::milliseconds;

namespace {

milliseconds shorter(milliseconds lease, milliseconds longest_hold) noexcept {
  return longest_hold > milliseconds::zero() ? std::min(lease, longest_hold) : lease;
}

}  // namespace

Result<Notice> Notice::of(std::optional<milliseconds> wanted, milliseconds lease, milliseconds max_hold,
                          std::string_view lease_name) {
  if (wanted && *wanted < milliseconds::zero()) {
    return Error(ErrorCode::InvalidArgument, "invalid notice: it must not be negative");
  }
  const auto limit = shorter(lease, max_hold);
  if (wanted && *wanted > limit / 3) {
    const std::string name(limit < lease ? "max_hold" : lease_name);
    return Error(ErrorCode::InvalidArgument, "invalid notice: " + std::to_string(wanted->count()) +
                                                 " ms is more than a third of the " + name + " of " +
                                                 std::to_string(limit.count()) + " ms. Use a longer " + name +
                                                 " or a shorter notice");
  }
  Notice notice;
  notice.wanted_ = wanted;
  return notice;
}

BootClock::duration Notice::before_end(milliseconds lease, milliseconds longest_hold) const noexcept {
  using Duration = BootClock::duration;
  const Duration shortest = shorter(lease, longest_hold);
  const auto wake_up =
      std::clamp<Duration>(Duration(lease) / 100, milliseconds(1), milliseconds(50));
  const auto asked = wanted_ ? std::min<Duration>(*wanted_, shortest / 3)
                             : std::min<Duration>(std::chrono::seconds(5), shortest / 6);
  return std::max(asked, wake_up);
}

}  // namespace holdfast::locks
