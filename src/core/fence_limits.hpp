#pragma once

#include <cstdint>
#include <holdfast/fence.hpp>
#include <holdfast/lock_types.hpp>
#include <holdfast/log.hpp>

namespace holdfast::core {

/// The fence after `last`. Internal when the counter is used up: then nothing may be held.
[[nodiscard]] inline Result<Fence> next_fence(std::uint64_t last) {
  if (last >= Fence::max_issued) {
    return Error(ErrorCode::Internal,
                 "the fence counter is used up; move this lock to a key (or store) with a fresh counter");
  }
  return Fence::of(last + 1);
}

/// Call outside mutexes and transactions, after each grant.
inline void warn_of_high_fence(Log& log, Fence fence, const LockKey& key) {
  if (fence.value() <= Fence::warn_above) [[likely]]
    return;
  log.write(LogLevel::warning, "fence " + fence.to_string() + " of key hash " + key_hash(key.str()) +
                                   " nears the end of its counter");
}

}  // namespace holdfast::core
