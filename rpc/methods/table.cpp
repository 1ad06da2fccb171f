#include <array>
#include <holdfast/open.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"
#include "rpc/methods/openrpc.hpp"

namespace holdfast::rpc {
namespace {

using nlohmann::ordered_json;

/// In the units of the task records: milliseconds and bytes.
ordered_json limits_of(const QueueOptions& queues) {
  const auto& options = queues.tasks;
  return {
      {"maxTasksPerOwner", options.max_tasks_per_owner},  {"maxTasksPerQueue", queues.max_tasks},
      {"defaultTtl", options.default_ttl.count()},        {"maxTtl", options.max_ttl.count()},
      {"maxVariablesBytes", options.max_variables_bytes}, {"maxStringBytes", options.max_string_bytes},
      {"maxVariableDepth", options.max_variable_depth},   {"pollInterval", options.poll_interval.count()}};
}

asio::awaitable<Json> describe_server(MethodCall call) {
  auto names = ordered_json::array();
  for (const auto& method : methods()) names.push_back(method.name);
  const ordered_json result{{"version", version()},
                            {"backend", call.session->service().locks().capabilities().backend},
                            {"taskLimits", limits_of(call.session->service().options())},
                            {"methods", std::move(names)}};
  co_return dump(result);
}

asio::awaitable<Json> describe_methods(MethodCall /*call*/) {
  co_return openrpc_document();
}

asio::awaitable<Json> cancel_request(MethodCall call) {
  co_return ok(call.session->cancel(comparable_id(call.params.json("id").str())));
}

/// All methods. Error messages list the parameters of a method in this order.
consteval auto make_table() {
  constexpr auto key = required("key", Kind::text);
  constexpr auto lock_id = required("lockId", Kind::text);
  constexpr auto ttl = required("ttlMs", Kind::milliseconds);
  constexpr auto lock_options = optional("ttlMs", Kind::milliseconds) + optional("waitMs", Kind::wait) +
                                optional("retries", Kind::count) + optional("maxHoldMs", Kind::milliseconds) +
                                optional("noticeMs", Kind::milliseconds) + optional("holder", Kind::text);
  constexpr auto owner = required("ownerId", Kind::text);
  constexpr auto task = owner + required("taskId", Kind::text);
  constexpr auto message = optional("statusMessage", Kind::text);
  // Under which lock a task is written to: by the id of a held lock, or spelled out.
  constexpr auto fence = optional("lockId", Kind::text) + optional("fence", Kind::fence) +
                         optional("lockKey", Kind::text) + optional("authority", Kind::text);
  // And which task of those that have had this id.
  constexpr auto fence_and_incarnation = fence + optional("incarnation", Kind::text);

  constexpr auto selection = optional("status", Kind::text) + optional("cursor", Kind::text) +
                             optional("limit", Kind::count) + optional("olderThanMs", Kind::milliseconds) +
                             optional("oldestFirst", Kind::boolean) + optional("unclaimed", Kind::boolean);
  constexpr auto queue = required("queue", Kind::text);
  constexpr auto queued = queue + required("taskId", Kind::text);
  constexpr auto job = required("jobId", Kind::text);
  constexpr auto claim_options = optional("leaseMs", Kind::milliseconds) +
                                 optional("noticeMs", Kind::milliseconds) + optional("worker", Kind::text);

  return std::array{
      Method{"lock.acquire", key + ttl + optional("holder", Kind::text), lock_methods::acquire,
             "Makes one attempt; the lock is not renewed and outlives the connection", "AcquireOutcome",
             Pace::prompt, Answer::needed},
      Method{"lock.lock", key + lock_options, lock_methods::wait_for_lock,
             "Waits for a lock, which is renewed while the connection lasts", "Grant", Pace::waits,
             Answer::needed},
      Method{"lock.release", lock_id, lock_methods::release, "Releases a lock", "ReleaseOutcome"},
      Method{"lock.extend", lock_id + ttl, lock_methods::extend,
             "Sets a new expiry of a lock: a ttl from now", "ExtendOutcome"},
      Method{"lock.remaining", lock_id, lock_methods::remaining,
             "Returns how long the lease of a renewed lock is proven", "Remaining"},
      Method{"lock.isLocked", key, lock_methods::is_locked, "Checks whether a lock is held", "Locked"},
      Method{"lock.lookup", optional("key", Kind::text) + optional("lockId", Kind::text),
             lock_methods::lookup, "Describes a held lock, by its key or its id", "LockInfoOrNull"},
      Method{
          "lock.subscribe", optional("lockId", Kind::text), lock_methods::subscribe,
          "Sends lock.lost when this lock, or any renewed lock of the connection, is lost, and lock.atRisk "
          "when a renewal fails",
          "Ok"},

      Method{"task.create",
             owner + optional("requestMethod", Kind::text) + optional("ttl", Kind::milliseconds) +
                 optional("pollInterval", Kind::milliseconds) + optional("variables", Kind::object) +
                 optional("requestKey", Kind::text),
             task_methods::create, "Creates a task", "Task"},
      Method{"task.get", task, task_methods::get, "Returns a task", "Task"},
      Method{"task.list", owner + selection, task_methods::list,
             "Lists an owner's tasks, newest first by default", "TaskPage"},
      Method{"task.updateStatus", task + required("status", Kind::text) + message + fence_and_incarnation,
             task_methods::update_status, "Changes a task's status", "Task"},
      Method{"task.setVariables", task + required("variables", Kind::object) + fence_and_incarnation,
             task_methods::set_variables, "Merges variables into a task's; null deletes one", "Task"},
      Method{"task.setResult", task + required("result", Kind::any) + fence_and_incarnation,
             task_methods::set_result, "Sets a task's result without ending it", "Task"},
      Method{"task.getResult", task, task_methods::get_result, "Returns the result of a task that has ended",
             "Result"},
      Method{"task.completeWithResult",
             task + required("result", Kind::any) + message + fence_and_incarnation, task_methods::complete,
             "Marks a task completed, with a result", "Task"},
      Method{"task.complete", task + optional("result", Kind::any) + message + fence_and_incarnation,
             task_methods::complete, "Marks a task completed; without a result, keeps the one set before",
             "Task"},
      Method{"task.fail", task + optional("result", Kind::any) + message + fence_and_incarnation,
             task_methods::fail, "Marks a task failed", "Task"},
      Method{"task.cancel", task + message + optional("incarnation", Kind::text), task_methods::cancel,
             "Cancels a task, without a fence", "Task"},
      Method{"task.remove", task + fence_and_incarnation, task_methods::remove, "Removes a task", "Ok"},
      Method{"task.wait", task + optional("timeoutMs", Kind::milliseconds), task_methods::wait,
             "Waits until a task has ended", "TaskOrNull", Pace::waits},
      Method{"task.claim", task + lock_options, task_methods::claim,
             "Waits for a task's own lock, which is renewed while the connection lasts", "TaskGrant",
             Pace::waits, Answer::needed},
      Method{"task.tryClaim",
             task + optional("ttlMs", Kind::milliseconds) + optional("maxHoldMs", Kind::milliseconds) +
                 optional("noticeMs", Kind::milliseconds) + optional("holder", Kind::text),
             task_methods::try_claim, "Claims a task as task.claim does, without waiting", "ClaimOutcome",
             Pace::prompt, Answer::needed},
      Method{"task.bind", task + fence_and_incarnation, task_methods::bind, "Binds a task to a lock", "Task"},
      Method{"task.rebind", task + fence + optional("fromAuthority", Kind::text), task_methods::rebind,
             "Binds a task to another lock, for operators", "Task"},
      Method{"task.cleanupExpired",
             {},
             task_methods::cleanup_expired,
             "Deletes expired tasks of all owners",
             "Removed"},

      Method{"queue.add",
             queue + optional("requestMethod", Kind::text) + optional("variables", Kind::object) +
                 optional("priority", Kind::integer) + optional("delayMs", Kind::milliseconds) +
                 optional("maxAttempts", Kind::integer) + optional("attemptLimitMs", Kind::milliseconds) +
                 optional("maxAgeMs", Kind::milliseconds) + optional("retentionMs", Kind::milliseconds) +
                 optional("failedRetentionMs", Kind::milliseconds) + optional("limitKey", Kind::text) +
                 optional("limit", Kind::integer) + optional("requestKey", Kind::text) +
                 optional("requester", Kind::text),
             queue_methods::add, "Adds a task to a queue", "Task"},
      Method{"queue.claimNext",
             required("queues", Kind::texts) + optional("waitMs", Kind::wait) +
                 optional("limit", Kind::integer) + claim_options,
             queue_methods::claim_next,
             "Claims the next tasks of the first of these queues that has any; waits for one", "Jobs",
             Pace::waits, Answer::needed},
      Method{"queue.claim", queued + claim_options, queue_methods::claim, "Claims this task, without waiting",
             "JobOrNull", Pace::prompt, Answer::needed},
      Method{"queue.get", queued, queue_methods::get, "Returns a task of a queue", "Task"},
      Method{"queue.listTasks", queue + selection, queue_methods::list_tasks,
             "Lists the tasks of a queue, newest first by default", "TaskPage"},
      Method{"queue.getResult", queued, queue_methods::get_result,
             "Returns the result of a task that has ended", "Result"},
      Method{"queue.cancel", queued + message, queue_methods::cancel, "Cancels a task; its worker is stopped",
             "Task"},
      Method{"queue.remove", queued, queue_methods::remove, "Removes a task", "Ok"},
      Method{"queue.wait", queued + optional("timeoutMs", Kind::milliseconds), queue_methods::wait,
             "Waits until a task has ended", "TaskOrNull", Pace::waits},
      Method{"queue.retry", queued, queue_methods::retry,
             "Adds a task that does the work of a failed or cancelled one again", "Task"},
      Method{"queue.counts", queue, queue_methods::counts, "Counts the tasks of a queue", "QueueCounts"},
      Method{"queue.pause", queue, queue_methods::pause, "Stops claims until the queue is resumed",
             "QueueCounts"},
      Method{"queue.resume", queue, queue_methods::resume, "Allows claims again", "QueueCounts"},
      Method{"queue.limit", queue + required("limit", Kind::count), queue_methods::limit,
             "Sets how many tasks may be worked on at once; 0: any number", "QueueCounts"},
      Method{"queue.list", optional("cursor", Kind::text) + optional("limit", Kind::integer),
             queue_methods::list, "Lists the names of the queues", "QueuePage"},

      Method{"job.setVariables", job + required("variables", Kind::object), job_methods::set_variables,
             "Merges variables into those of a job's task; null deletes one", "Task"},
      Method{"job.complete", job + optional("result", Kind::any) + message, job_methods::complete,
             "Marks a job's task completed, and ends the job", "Task"},
      Method{"job.completeAndClaim", job + optional("result", Kind::any) + message + claim_options,
             job_methods::complete_and_claim,
             "Marks a job's task completed, and claims the next task of its queue", "JobEnd", Pace::prompt,
             Answer::needed},
      Method{"job.remaining", job, job_methods::remaining, "Returns how long the lease of a job is proven",
             "Remaining"},
      Method{"job.fail", job + optional("result", Kind::any) + message, job_methods::fail,
             "Marks a job's task failed for good, and ends the job", "Task"},
      Method{"job.retry", job + optional("delayMs", Kind::milliseconds) + message, job_methods::retry,
             "Ends the job; the task is attempted again later, or failed after its last attempt", "Task"},
      Method{"job.giveBack", job, job_methods::give_back,
             "Ends the job and puts its task back; the attempt does not count", "Task"},
      Method{
          "job.subscribe", optional("jobId", Kind::text), job_methods::subscribe,
          "Sends job.stopped when this job, or any job of the connection, should stop, and job.atRisk when a "
          "renewal fails",
          "Ok"},

      Method{"holdfast.version", {}, describe_server, "Describes this server", "Server"},
      // Named by OpenRPC.
      Method{
          "rpc.discover", {}, describe_methods, "Returns this description as an OpenRPC document", "OpenRpc"},
      // Named as in the Language Server Protocol, so that its clients can cancel as they are.
      Method{"$/cancelRequest", required("id", Kind::id), cancel_request,
             "Cancels a request of this connection", "Ok"},
  };
}

constexpr auto table = make_table();

}  // namespace

std::span<const Method> methods() {
  return table;
}

}  // namespace holdfast::rpc
