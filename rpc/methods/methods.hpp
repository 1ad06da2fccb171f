#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/fence.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/queue_types.hpp>
#include <span>
#include <string>
#include <string_view>

#include "rpc/session/session.hpp"

namespace holdfast::rpc {

/// All methods, in the order `holdfast.version` lists them: table.cpp.
[[nodiscard]] std::span<const Method> methods();

/// {"ok":true} or {"ok":false}
[[nodiscard]] Json ok(bool done);
/// {"ok":true,"remainingMs":...}, rounded down
[[nodiscard]] Json proven(std::chrono::nanoseconds remaining);
// Shared by the methods that acquire a lock: lock.acquire, lock.lock and task.claim.
/// {"ok":true,"lockId":...,"fence":...,"expiresAtMs":...}
[[nodiscard]] Json granted(std::string_view lock_id, Fence fence, WallTime expires_at,
                           std::optional<std::uint32_t> replicas);
/// ttlMs, waitMs, retries and maxHoldMs; the defaults for those that are absent.
[[nodiscard]] LockOptions lock_options(const Params& params);
/// For LockOptions::holder: the parameter `holder`, or the label of the client's process.
[[nodiscard]] std::string holder_of(const MethodCall& call);
// Shared by the methods that list tasks.
/// The parameter `status`. Throws bad_params.
[[nodiscard]] TaskStatus status_of(const Params& params);
/// All of ListTasks. `cursor` has to outlive the result.
[[nodiscard]] ListTasks list_options(const Params& params, const std::string& cursor);
/// {"tasks":[records],"unreadable"?,"nextCursor"?}
[[nodiscard]] Json to_json(const TaskPage& page);
// Shared by the methods that claim jobs.
/// leaseMs and worker; the label of the client's process if `worker` is absent. `worker` has to outlive the
/// result.
[[nodiscard]] ClaimOptions claim_options(const Params& params, const std::string& worker);
/// The parameter `worker`, or the label of the client's process.
[[nodiscard]] std::string worker_of(const MethodCall& call);
/// Gives the job to the client, and describes it: {"jobId","queue","taskId","attempt","fence","task"}.
[[nodiscard]] Json hand_over(const MethodCall& call, Job job);

// What the rows of the table call.
using MethodFunction = asio::awaitable<Json>(MethodCall);
namespace lock_methods {
MethodFunction acquire, wait_for_lock, release, extend, is_locked, lookup, subscribe, remaining;
}
namespace task_methods {
MethodFunction create, get, list, update_status, set_variables, set_result, get_result, complete, fail,
    cancel, remove, wait, claim, try_claim, bind, rebind, cleanup_expired;
}
namespace queue_methods {
MethodFunction add, claim_next, claim, get, list_tasks, get_result, cancel, remove, wait, retry, counts,
    pause, resume, limit, list;
}
namespace job_methods {
MethodFunction set_variables, complete, complete_and_claim, fail, retry, give_back, subscribe, remaining;
}

}  // namespace holdfast::rpc
