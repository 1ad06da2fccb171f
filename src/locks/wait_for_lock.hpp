#pragma once

#include <holdfast/lock_backend.hpp>
#include <stop_token>

#include "locks/acquire_loop.hpp"
#include "locks/held_lock.hpp"
#include "locks/runtime.hpp"

namespace holdfast::locks {

/// Runs the acquire loop on the calling thread. Errors carry the key.
Result<HeldLock::Grant> wait_for_lock(LockRuntime& runtime, LockKey key, const AcquirePolicy& policy,
                                      Durability durability, const std::stop_token& stop);

}  // namespace holdfast::locks
