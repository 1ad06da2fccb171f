#pragma once

#include <cstdint>
#include <holdfast/fence.hpp>
#include <holdfast/lock_types.hpp>
#include <optional>
#include <string>

namespace holdfast::core {

/// The fence after `last`. Internal when the counter is used up: then nothing may be held.
[[nodiscard]] inline Result<Fence> next_fence(std::uint64_t last) {
  if (last >= Fence::max_issued) {
    return Error(ErrorCode::Internal,
                 "the fence counter is used up; move this lock to a key (or store) with a fresh counter");
  }
  return Fence::of(last + 1);
}

/// What to log, outside mutexes and transactions, after a grant: nothing while the fence is far from the end.
[[nodiscard]] inline std::optional<std::string> high_fence_warning(Fence fence, const LockKey& key) {
  if (fence.value() <= Fence::warn_above) [[likely]]
    return std::nullopt;
  return "fence " + fence.to_string() + " of key hash " + key_hash(key.str()) +
         " nears the end of its counter";
}

}  // namespace holdfast::core
