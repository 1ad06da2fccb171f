#pragma once

#include <holdfast/lock_operations.hpp>
#include <memory>
#include <stop_token>

#include "locks/runtime.hpp"
#include "runtime/flow.hpp"

namespace holdfast::locks {

using runtime::Flow;
using runtime::Op;
using Runtime = std::shared_ptr<LockRuntime>;

/// What Locks::lock does, for policies on top of locks.
Op<Guard> perform(Flow flow, Runtime runtime, operation::Lock what, std::stop_token stop);

}  // namespace holdfast::locks
