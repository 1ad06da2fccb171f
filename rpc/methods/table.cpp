#include <array>
#include <holdfast/open.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"

namespace holdfast::rpc {
namespace {

using nlohmann::ordered_json;

/// In the units of the task records: milliseconds and bytes.
ordered_json limits_of(const TaskOptions& options) {
  return {{"maxTasksPerOwner", options.max_tasks_per_owner},
          {"defaultTtl", options.default_ttl.count()},
          {"maxTtl", options.max_ttl.count()},
          {"maxVariablesBytes", options.max_variables_bytes},
          {"maxStringBytes", options.max_string_bytes},
          {"maxVariableDepth", options.max_variable_depth},
          {"pollInterval", options.poll_interval.count()}};
}

asio::awaitable<Json> describe_server(MethodCall call) {
  auto names = ordered_json::array();
  for (const auto& method : methods()) names.push_back(method.name);
  const ordered_json result{{"version", version()},
                            {"backend", call.session->service().locks().capabilities().backend},
                            {"taskLimits", limits_of(call.session->service().task_options())},
                            {"methods", std::move(names)}};
  co_return dump(result);
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
                                optional("holder", Kind::text);
  constexpr auto owner = required("ownerId", Kind::text);
  constexpr auto task = owner + required("taskId", Kind::text);
  constexpr auto message = optional("statusMessage", Kind::text);
  // Under which lock a task is written to: by the id of a held lock, or spelled out.
  constexpr auto fence = optional("lockId", Kind::text) + optional("fence", Kind::fence) +
                         optional("lockKey", Kind::text) + optional("authority", Kind::text);
  // And which task of those that have had this id.
  constexpr auto fence_and_incarnation = fence + optional("incarnation", Kind::text);

  constexpr std::string_view granted = R"({"ok":true,"lockId","fence","expiresAtMs"})";
  constexpr std::string_view not_held = R"({"ok":true}, or {"ok":false,"reason"})";
  constexpr std::string_view record = "the task's record";

  return std::array{
      Method{"lock.acquire", key + ttl + optional("holder", Kind::text), lock_methods::acquire,
             "Makes one attempt; the lock is not renewed and outlives the connection",
             R"({"ok":true,"lockId","fence","expiresAtMs"}, or {"ok":false,"reason":"locked","holder"?})",
             Pace::prompt, Answer::needed},
      Method{"lock.lock", key + lock_options, lock_methods::wait_for_lock,
             "Waits for a lock, which is renewed while the connection lasts", granted, Pace::waits,
             Answer::needed},
      Method{"lock.release", lock_id, lock_methods::release, "Releases a lock", not_held},
      Method{"lock.extend", lock_id + ttl, lock_methods::extend,
             "Sets a new expiry of a lock: a ttl from now",
             R"({"ok":true,"expiresAtMs"}, or {"ok":false,"reason"})"},
      Method{"lock.isLocked", key, lock_methods::is_locked, "Checks whether a lock is held", "true or false"},
      Method{"lock.lookup", optional("key", Kind::text) + optional("lockId", Kind::text),
             lock_methods::lookup, "Describes a held lock, by its key or its id",
             R"({"keyHash","lockIdHash","expiresAtMs","acquiredAtMs","fence","holder"?}, or null)"},
      Method{"lock.subscribe", optional("lockId", Kind::text), lock_methods::subscribe,
             "Sends lock.lost when this lock, or any renewed lock of the connection, is lost", R"({"ok"})"},

      Method{"task.create",
             owner + optional("requestMethod", Kind::text) + optional("ttl", Kind::milliseconds) +
                 optional("pollInterval", Kind::milliseconds) + optional("variables", Kind::object) +
                 optional("requestKey", Kind::text),
             task_methods::create, "Creates a task", record},
      Method{"task.get", task, task_methods::get, "Returns a task", record},
      Method{"task.list",
             owner + optional("status", Kind::text) + optional("cursor", Kind::text) +
                 optional("limit", Kind::count),
             task_methods::list, "Lists an owner's tasks, newest first",
             R"({"tasks":[records],"unreadable"?,"nextCursor"?})"},
      Method{"task.updateStatus", task + required("status", Kind::text) + message + fence_and_incarnation,
             task_methods::update_status, "Changes a task's status", record},
      Method{"task.setVariables", task + required("variables", Kind::object) + fence_and_incarnation,
             task_methods::set_variables, "Merges variables into a task's; null deletes one", record},
      Method{"task.setResult", task + required("result", Kind::any) + fence_and_incarnation,
             task_methods::set_result, "Sets a task's result without ending it", record},
      Method{"task.getResult", task, task_methods::get_result, "Returns the result of a task that has ended",
             "the result, or null"},
      Method{"task.completeWithResult",
             task + required("result", Kind::any) + message + fence_and_incarnation, task_methods::complete,
             "Marks a task completed, with a result", record},
      Method{"task.complete", task + optional("result", Kind::any) + message + fence_and_incarnation,
             task_methods::complete, "Marks a task completed; without a result, keeps the one set before",
             record},
      Method{"task.fail", task + optional("result", Kind::any) + message + fence_and_incarnation,
             task_methods::fail, "Marks a task failed", record},
      Method{"task.cancel", task + message + optional("incarnation", Kind::text), task_methods::cancel,
             "Cancels a task, without a fence", record},
      Method{"task.remove", task + fence_and_incarnation, task_methods::remove, "Removes a task",
             R"({"ok"})"},
      Method{"task.wait", task + optional("timeoutMs", Kind::milliseconds), task_methods::wait,
             "Waits until a task has ended", "the task's record, or null after the timeout", Pace::waits},
      Method{"task.claim", task + lock_options, task_methods::claim,
             "Waits for a task's own lock, which is renewed while the connection lasts",
             R"({"ok":true,"lockId","fence","expiresAtMs","task"})", Pace::waits, Answer::needed},
      Method{"task.bind", task + fence_and_incarnation, task_methods::bind, "Binds a task to a lock", record},
      Method{"task.rebind", task + fence + optional("fromAuthority", Kind::text), task_methods::rebind,
             "Binds a task to another lock, for operators", record},
      Method{"task.cleanupExpired",
             {},
             task_methods::cleanup_expired,
             "Deletes expired tasks of all owners",
             R"({"removed":N})"},

      Method{"holdfast.version",
             {},
             describe_server,
             "Describes this server",
             R"({"version","backend","taskLimits","methods"})"},
      // Named as in the Language Server Protocol, so that its clients can cancel as they are.
      Method{"$/cancelRequest", required("id", Kind::id), cancel_request,
             "Cancels a request of this connection", R"({"ok"})"},
  };
}

constexpr auto table = make_table();

}  // namespace

std::span<const Method> methods() {
  return table;
}

}  // namespace holdfast::rpc
