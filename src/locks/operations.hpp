#pragma once

#include <holdfast/guard.hpp>
#include <holdfast/lock_options.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "flow/flow.hpp"
#include "locks/runtime.hpp"

// What Locks does, written once for both of its forms; see there for what each means.
namespace holdfast::locks {

using flow::Flow;
using flow::Op;
using Runtime = std::shared_ptr<LockRuntime>;

Op<Guard> lock(Flow flow, Runtime runtime, std::string key, LockOptions options, std::stop_token stop,
               std::optional<CounterLifetime> counter_lifetime = {});
Op<std::optional<Guard>> try_lock(Flow flow, Runtime runtime, std::string key, LockOptions options,
                                  std::stop_token stop);
Op<std::optional<Guard>> adopt(Flow flow, Runtime runtime, DetachedLock lock, LockOptions options,
                               std::stop_token stop);
Op<DetachedLock> acquire(Flow flow, Runtime runtime, std::string key, LockOptions options,
                         std::stop_token stop);
Op<bool> release(Flow flow, Runtime runtime, std::string lock_id, std::stop_token stop);
Op<std::optional<std::int64_t>> extend(Flow flow, Runtime runtime, std::string lock_id,
                                       std::chrono::milliseconds ttl, std::stop_token stop);
Op<bool> is_locked(Flow flow, Runtime runtime, std::string key, std::stop_token stop);
Op<std::optional<LockRecord>> get_by_key(Flow flow, Runtime runtime, std::string key, std::stop_token stop);
Op<std::optional<LockRecord>> get_by_id(Flow flow, Runtime runtime, std::string lock_id,
                                        std::stop_token stop);
Op<std::optional<LockInfo>> sanitised(Op<std::optional<LockRecord>> raw);
Op<bool> owns(Flow flow, Runtime runtime, std::string key, std::string lock_id, std::stop_token stop);
Op<LockPage> list(Flow flow, Runtime runtime, ListRequest request, std::stop_token stop);
Op<std::optional<LockInfo>> break_lock(Flow flow, Runtime runtime, std::string key, std::string reason,
                                       std::optional<Fence> held_with, std::stop_token stop);

}  // namespace holdfast::locks
