#include "locks/notice.hpp"

#include <string>

namespace holdfast::locks {

using std::chrono::milliseconds;

std::optional<Error> Notice::refusal(milliseconds wanted, milliseconds lease, milliseconds max_hold,
                                     std::string_view lease_name) {
  if (wanted < milliseconds::zero()) {
    return Error(ErrorCode::InvalidArgument, "invalid notice: it must not be negative");
  }
  const auto limit = shorter(lease, max_hold);
  if (wanted <= limit / 3) return std::nullopt;
  const std::string name(limit < lease ? "max_hold" : lease_name);
  return Error(ErrorCode::InvalidArgument, "invalid notice: " + std::to_string(wanted.count()) +
                                               " ms is more than a third of the " + name + " of " +
                                               std::to_string(limit.count()) + " ms. Use a longer " + name +
                                               " or a shorter notice");
}

}  // namespace holdfast::locks
