#include "locks/release_loop.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::locks {

ReleaseLoop::Action ReleaseLoop::answered(Result<ReleaseOutcome> answer, BootTime now, bool stopped) {
  if (answer || !answer.error().transient() || stopped) return answer;
  if (whom_ == For::holder) {
    if (request_.asked_before || now >= request_.deadline) return answer;
    request_.asked_before = true;
    return Send{.at = now};
  }
  const auto at = saturating_add(now, std::exchange(pause_, std::min(pause_ * 2, longest_pause)));
  if (at >= request_.deadline) return answer;
  return Send{.at = at};
}

}  // namespace holdfast::locks
