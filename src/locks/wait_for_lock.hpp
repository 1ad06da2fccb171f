#pragma once

#include <stop_token>

#include "flow/flow.hpp"
#include "locks/acquire_loop.hpp"
#include "locks/held_lock.hpp"
#include "locks/runtime.hpp"

namespace holdfast::locks {

/// Waits for the lock as the policy says. The grant, or AcquisitionTimeout, Aborted or the error that stood
/// in the way; then nothing is held, or will not be for long (an unanswered attempt is released in the
/// background).
flow::Op<HeldLock::Grant> wait_for_lock(flow::Flow flow, std::shared_ptr<LockRuntime> runtime, LockKey key,
                                        AcquirePolicy policy, Durability durability, std::stop_token stop);

}  // namespace holdfast::locks
