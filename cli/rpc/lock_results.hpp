#pragma once

#include <cstdint>
#include <holdfast/fence.hpp>
#include <holdfast/json.hpp>
#include <holdfast/lock_options.hpp>
#include <string_view>

#include "rpc/held_locks.hpp"
#include "rpc/params.hpp"

namespace holdfast::cli::rpc {

// Shared by what takes a lock: lock.acquire, lock.lock and task.claim.

/// {"ok":true,"lockId":...,"fence":...,"expiresAtMs":...}
[[nodiscard]] Json granted(std::string_view lock_id, Fence fence, std::int64_t expires_at_ms);

/// ttlMs, waitMs, retries and maxHoldMs, where they are given.
[[nodiscard]] LockOptions lock_options(const Params& params);

/// Throws Error(RateLimited) if the client holds as many as it may.
void check_room_for_lock(const HeldLocks& held);

}  // namespace holdfast::cli::rpc
