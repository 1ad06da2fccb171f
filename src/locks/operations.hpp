#pragma once

#include <holdfast/locks.hpp>
#include <memory>
#include <stop_token>

#include "locks/lock_store.hpp"
#include "runtime/flow.hpp"

namespace holdfast::locks {

using runtime::Flow;
using runtime::Op;
using Store = std::shared_ptr<LockStore>;

/// Implements Locks::lock, for policies on top of locks.
Op<Guard> perform(Flow flow, Store store, operation::Lock what, std::stop_token stop);

}  // namespace holdfast::locks
