#pragma once

#include <cstdint>
#include <holdfast/fence.hpp>
#include <holdfast/lock_options.hpp>
#include <span>
#include <string_view>

#include "rpc/session/session.hpp"

namespace holdfast::rpc {

/// All methods, in the order `holdfast.version` lists them: table.cpp.
[[nodiscard]] std::span<const Method> methods();

/// {"ok":true} or {"ok":false}
[[nodiscard]] Json ok(bool done);
// Shared by the methods that acquire a lock: lock.acquire, lock.lock and task.claim.
/// {"ok":true,"lockId":...,"fence":...,"expiresAtMs":...}
[[nodiscard]] Json granted(std::string_view lock_id, Fence fence, WallTime expires_at,
                           std::optional<std::uint32_t> replicas);
/// ttlMs, waitMs, retries and maxHoldMs; the defaults for those that are absent.
[[nodiscard]] LockOptions lock_options(const Params& params);
/// For LockOptions::holder: the parameter `holder`, or the label of the client's process.
[[nodiscard]] std::string holder_of(const MethodCall& call);

// What the rows of the table call.
using MethodFunction = asio::awaitable<Json>(MethodCall);
namespace lock_methods {
MethodFunction acquire, wait_for_lock, release, extend, is_locked, lookup, subscribe;
}
namespace task_methods {
MethodFunction create, get, list, update_status, set_variables, set_result, get_result, complete, fail,
    cancel, remove, wait, claim, bind, rebind, cleanup_expired;
}

}  // namespace holdfast::rpc
