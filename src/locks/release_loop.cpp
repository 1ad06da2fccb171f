#include "locks/release_loop.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::locks {

std::optional<BootTime> ReleaseLoop::resend_at(const Result<ReleaseOutcome>& answer, BootTime now,
                                               bool stopped) {
  if (answer || !answer.error().transient() || stopped) return std::nullopt;
  if (whom_ == For::holder) {
    if (request_.asked_before || now >= request_.deadline) return std::nullopt;
    request_.asked_before = true;
    return now;
  }
  const auto at = saturating_add(now, std::exchange(pause_, std::min(pause_ * 2, longest_pause)));
  return at < request_.deadline ? std::optional(at) : std::nullopt;
}

}  // namespace holdfast::locks
