#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"
#include "rpc/protocol/message.hpp"

namespace holdfast::rpc::task_methods {
namespace {

FencingToken token_spelled_out(const Params& params, const AsyncLocks& locks) {
  if (!params.has("fence")) throw bad_params("fence: is missing; lockKey and authority require it");
  if (!params.has("lockKey"))
    throw bad_params("lockKey: is missing; pass the key of the lock that granted the fence");
  return {.authority = params.text_if("authority").value_or(locks.authority()),
          .lock_key = LockKey::parse(params.text("lockKey")).value_or_throw().str(),
          .fence = params.fence("fence")};
}

/// The lock that a write is made under, if the request names one: by `lockId`, the id of any held lock, or by
/// `fence` and `lockKey` (and `authority`, for the fence of another store). Throws Error(StaleFence) if that
/// lock is lost and its proof has ended: what it guarded may have another holder now.
asio::awaitable<std::optional<FencingToken>> fencing_token(const MethodCall& call) {
  const auto& params = call.params;
  auto& locks = call.session->service().locks();
  const bool spelled_out = params.has("fence") || params.has("lockKey") || params.has("authority");
  if (!params.has("lockId")) {
    if (!spelled_out) co_return std::nullopt;
    auto token = token_spelled_out(params, locks);
    if (!params.has("authority") && locks.capabilities().authority_per_key) {
      const auto lock = co_await locks.get_by_key_raw(token.lock_key);
      if (!lock) {
        throw Error(ErrorCode::StaleFence,
                    "the lock of this fence is not held: released or expired. Nothing was written");
      }
      token.authority = lock->authority;
    }
    co_return token;
  }
  if (spelled_out) throw bad_params("pass either lockId, or fence and lockKey");
  const std::string lock_id(LockId::parse(params.text("lockId")).value_or_throw().str());
  if (const auto guard = call.session->held().find(lock_id)) {
    if (!guard->still_held()) {
      throw Error(ErrorCode::StaleFence, "this lock is lost, so nothing was written; release it");
    }
    co_return FencingToken{
        .authority = guard->authority(), .lock_key = guard->key(), .fence = guard->fence()};
  }
  const auto lock = co_await locks.get_by_id_raw(lock_id);
  if (!lock) {
    throw Error(ErrorCode::StaleFence,
                "this lock id holds no lock: released or expired. Nothing was written");
  }
  co_return FencingToken{.authority = lock->authority.empty() ? locks.authority() : lock->authority,
                         .lock_key = lock->key.str(),
                         .fence = lock->fence};
}

/// The task that a request names, and the store as it has to be used for that task.
struct Target {
  std::string owner;
  std::string id;
  AsyncTasks tasks;
};

/// For reading, and for writes that carry no fence.
asio::awaitable<Target> target_of(const MethodCall& call) {
  auto tasks = co_await call.session->service().tasks();
  Target target{.owner = call.params.text("ownerId"), .id = call.params.text("taskId"), .tasks = tasks};
  co_return target;
}

/// The one task of this id that is meant: by its incarnation, or by a claim on it.
asio::awaitable<Target> incarnation_of(const MethodCall& call) {
  auto target = co_await target_of(call);
  auto incarnation = call.params.text_if("incarnation").value_or("");
  if (incarnation.starts_with('~')) {
    throw bad_params(
        "incarnation: one that starts with ~ is not lasting: the task was written by other software. Omit "
        "it, or claim the task first to give it one");
  }
  if (incarnation.empty() && call.params.has("lockId")) {
    incarnation = call.session->held().incarnation(call.params.text("lockId"), target.owner, target.id);
  }
  target.tasks = target.tasks.with_incarnation(incarnation);
  co_return target;
}

/// The same for writing: under a fence if the request names one.
asio::awaitable<Target> target_for_writing(const MethodCall& call) {
  auto target = co_await incarnation_of(call);
  const auto token = co_await fencing_token(call);
  if (token) target.tasks = target.tasks.with_fence(*token);
  co_return target;
}

/// As Tasks::worker.
asio::awaitable<std::optional<LockInfo>> worker_on(const MethodCall& call, const Task& task) {
  auto& locks = call.session->service().locks();
  const auto& bound_to = task.bound_to;
  const bool is_known = bound_to && LockKey::parse(bound_to->lock_key) &&
                        (locks.capabilities().authority_per_key || bound_to->authority == locks.authority());
  if (!is_known || is_final(task.status)) co_return std::nullopt;
  co_return co_await locks.get_by_key(bound_to->lock_key);
}

/// Without a result, one that was set before stays.
asio::awaitable<Json> end_task(MethodCall call, TaskStatus status) {
  const auto result = call.params.json_if("result");
  const auto message = call.params.text_if("statusMessage");
  auto target = co_await target_for_writing(call);
  std::optional<Task> task;
  if (!result) {
    task = co_await target.tasks.update_status(target.owner, target.id, status, message);
  } else if (status == TaskStatus::completed) {
    task = co_await target.tasks.complete_with_result(target.owner, target.id, *result, message);
  } else {
    task = co_await target.tasks.fail_with_result(target.owner, target.id, *result, message);
  }
  co_return to_json(*task);
}

/// Gives the claim's lock to the client, and describes both.
Json taken_over(Session& session, const Target& target, Claim claimed) {
  const auto task = claimed.task();
  AsyncGuard guard(session.service().executor(), std::move(claimed.guard()));
  JsonObject result;
  const auto lock = granted(guard.id().str(), guard.fence(), guard.expires_at(), guard.replicas());
  for (const auto& [name, value] : members_of(lock)) result.add(name, value);
  result.add("task", to_json(task).str());
  HeldLocks::ClaimedTask claimed_task{
      .owner = target.owner, .id = target.id, .incarnation = task.incarnation};
  session.held().add(std::move(guard), std::move(claimed_task));
  return result.json();
}

}  // namespace

asio::awaitable<Json> create(MethodCall call) {
  const auto& params = call.params;
  const auto owner = params.text("ownerId");
  const auto method = params.text_if("requestMethod").value_or("");
  const auto variables = params.json_if("variables").value_or(Json());
  const auto request_key = params.text_if("requestKey").value_or("");
  const NewTask task{.method = method,
                     .ttl = params.milliseconds_if("ttl"),
                     .poll_interval = params.milliseconds_if("pollInterval"),
                     .variables = variables,
                     .request_key = request_key};
  if (params.has("requestKey") && request_key.empty()) {
    throw bad_params("requestKey: is empty; omit it, or name the request");
  }
  auto tasks = co_await call.session->service().tasks();
  const auto created = co_await tasks.create(owner, task);
  co_return to_json(created);
}

asio::awaitable<Json> get(MethodCall call) {
  auto target = co_await target_of(call);
  const auto task = co_await target.tasks.get(target.owner, target.id);
  const auto worker = co_await worker_on(call, task);
  co_return to_json(task, worker);
}

asio::awaitable<Json> list(MethodCall call) {
  const auto& params = call.params;
  const auto owner = params.text("ownerId");
  const auto cursor = params.text_if("cursor").value_or("");
  const auto what = list_options(params, cursor);
  auto tasks = co_await call.session->service().tasks();
  const auto page = co_await tasks.list(owner, what);
  co_return to_json(page);
}

asio::awaitable<Json> update_status(MethodCall call) {
  const auto status = status_of(call.params);
  const auto message = call.params.text_if("statusMessage");
  auto target = co_await target_for_writing(call);
  const auto task = co_await target.tasks.update_status(target.owner, target.id, status, message);
  co_return to_json(task);
}

asio::awaitable<Json> set_variables(MethodCall call) {
  const auto changes = call.params.json("variables");
  auto target = co_await target_for_writing(call);
  const auto task = co_await target.tasks.set_variables(target.owner, target.id, changes);
  co_return to_json(task);
}

asio::awaitable<Json> set_result(MethodCall call) {
  const auto result = call.params.json("result");
  auto target = co_await target_for_writing(call);
  const auto task = co_await target.tasks.set_result(target.owner, target.id, result);
  co_return to_json(task);
}

asio::awaitable<Json> get_result(MethodCall call) {
  auto target = co_await target_of(call);
  const auto result = co_await target.tasks.get_result(target.owner, target.id);
  co_return result.value_or(Json());
}

asio::awaitable<Json> complete(MethodCall call) {
  return end_task(std::move(call), TaskStatus::completed);
}

asio::awaitable<Json> fail(MethodCall call) {
  return end_task(std::move(call), TaskStatus::failed);
}

asio::awaitable<Json> cancel(MethodCall call) {
  const auto message = call.params.text_if("statusMessage");
  auto target = co_await incarnation_of(call);
  const auto task = co_await target.tasks.cancel(target.owner, target.id, message);
  co_return to_json(task);
}

asio::awaitable<Json> remove(MethodCall call) {
  auto target = co_await target_for_writing(call);
  const bool removed = co_await target.tasks.remove(target.owner, target.id);
  co_return ok(removed);
}

asio::awaitable<Json> wait(MethodCall call) {
  const auto timeout = call.params.milliseconds_if("timeoutMs").value_or(no_time_limit);
  auto target = co_await target_of(call);
  const auto task = co_await target.tasks.wait(target.owner, target.id, timeout);
  co_return task ? to_json(*task) : Json();
}

asio::awaitable<Json> bind(MethodCall call) {
  const auto token = co_await fencing_token(call);
  if (!token) throw bad_params("pass lockId, or fence and lockKey: the lock to bind the task to");
  auto target = co_await incarnation_of(call);
  const auto task = co_await target.tasks.bind(target.owner, target.id, *token);
  co_return to_json(task);
}

asio::awaitable<Json> rebind(MethodCall call) {
  const auto token = co_await fencing_token(call);
  const auto from = call.params.text_if("fromAuthority");
  auto target = co_await target_of(call);
  if (from) {
    const auto moved = co_await target.tasks.rebind_from(*from, target.owner, target.id, token);
    co_return to_json(moved);
  }
  const auto task = co_await target.tasks.rebind(target.owner, target.id, token);
  co_return to_json(task);
}

/// The claim's lock becomes one of the connection's: renewed, reported when lost, released at its end. Writes
/// name it by its id.
asio::awaitable<Json> claim(MethodCall call) {
  auto& session = *call.session;
  session.held().check_room();
  auto how = lock_options(call.params);
  const auto label = holder_of(call);
  how.holder = label;
  auto target = co_await target_of(call);
  auto claiming = co_await target.tasks.claim(target.owner, target.id, how);
  co_return taken_over(session, target, std::move(claiming).into_claim());
}

asio::awaitable<Json> try_claim(MethodCall call) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto& session = *call.session;
  session.held().check_room();
  LockOptions how{.wait = std::chrono::milliseconds::zero()};
  how.ttl = call.params.milliseconds_if("ttlMs").value_or(how.ttl);
  how.max_hold = call.params.milliseconds_if("maxHoldMs").value_or(how.max_hold);
  how.notice = call.params.milliseconds_if("noticeMs");
  const auto label = holder_of(call);
  how.holder = label;
  auto target = co_await target_of(call);
  nlohmann::ordered_json refusal{{"ok", false}, {"reason", "claimed"}};
  try {
    // Not tasks.try_claim, which does not say who has it.
    auto claiming = co_await target.tasks.claim(target.owner, target.id, how);
    co_return taken_over(session, target, std::move(claiming).into_claim());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::AcquisitionTimeout) throw;
    if (!error.holder().empty()) refusal["holder"] = error.holder();
  }
  co_return dump(refusal);
}

asio::awaitable<Json> cleanup_expired(MethodCall call) {
  auto tasks = co_await call.session->service().tasks();
  const auto removed = co_await tasks.cleanup_expired();
  co_return Json::unchecked("{\"removed\":" + std::to_string(removed) + "}");
}

}  // namespace holdfast::rpc::task_methods
