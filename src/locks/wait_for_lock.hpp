#pragma once

#include <holdfast/lock_backend.hpp>
#include <optional>
#include <stop_token>

#include "locks/acquire_loop.hpp"
#include "locks/held_lock.hpp"
#include "locks/lock_store.hpp"
#include "runtime/flow.hpp"

namespace holdfast::locks {

/// The request of every attempt of a waiter.
struct WantedLock {
  LockKey key;
  Durability durability = Durability::machine;
  std::optional<CounterLifetime> counter_lifetime = std::nullopt;
  std::optional<std::uint32_t> min_replicas = std::nullopt;
  std::shared_ptr<const LockHolder> holder = nullptr;  ///< the label of the grant
};

/// Waits for the lock as the policy says. Returns the grant, or AcquisitionTimeout, Aborted or the error that
/// prevented it. After an error no lock is held, or not for long (an unanswered attempt is released in the
/// background). Refers to flow, store and policy: the operation that awaits it must own them.
runtime::Op<HeldLock::Grant> wait_for_lock(const runtime::Flow& flow, const std::shared_ptr<LockStore>& store,
                                           WantedLock&& wanted, const AcquirePolicy& policy,
                                           std::stop_token stop);

}  // namespace holdfast::locks
