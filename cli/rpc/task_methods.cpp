#include <array>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "json_text.hpp"
#include "rpc/failure.hpp"
#include "rpc/fencing.hpp"
#include "rpc/lock_results.hpp"
#include "rpc/method.hpp"
#include "rpc/session.hpp"
#include "task_output.hpp"

namespace holdfast::cli::rpc {
namespace {

/// Which task a request is about.
struct Target {
  std::string owner;
  std::string id;
};

Target target_of(const Params& params) {
  return {.owner = params.text("ownerId"), .id = params.text("taskId")};
}

TaskStatus status_of(const Params& params) {
  if (const auto status = parse_task_status(params.text("status"))) return *status;
  throw bad_params("status: must be working, input_required, completed, failed or cancelled");
}

Json ok(bool done) {
  return Json::unchecked(done ? R"({"ok":true})" : R"({"ok":false})");
}

/// For the one task that the request means: by its incarnation, or by a claim on it.
asio::awaitable<AsyncTasks> tasks_meant(const Call& call) {
  const auto& params = call.params;
  auto tasks = co_await call.session->service().tasks();
  auto incarnation = params.text_if("incarnation").value_or("");
  if (incarnation.empty() && params.has("lockId")) {
    incarnation = call.session->held().incarnation(params.text("lockId"), params.text("ownerId"),
                                                   params.text("taskId"));
  }
  co_return tasks.with_incarnation(incarnation);
}

/// The tasks as this request has to write to them: under a fence, or under none.
asio::awaitable<AsyncTasks> tasks_for_writing(const Call& call) {
  auto tasks = co_await tasks_meant(call);
  const auto token = co_await fencing_token(call);
  co_return token ? tasks.with_fence(*token) : tasks;
}

asio::awaitable<Json> create(Call call) {
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
    throw bad_params("requestKey: is empty; leave it out, or name the request");
  }
  auto tasks = co_await call.session->service().tasks();
  const auto created = co_await tasks.create(owner, task);
  co_return to_json(created);
}

asio::awaitable<Json> get(Call call) {
  const auto target = target_of(call.params);
  auto tasks = co_await call.session->service().tasks();
  const auto task = co_await tasks.get(target.owner, target.id);
  co_return to_json(task);
}

/// Names and messages may be of any bytes.
std::string unreadable_json(const std::vector<Error>& unreadable) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& error : unreadable) {
    all.push_back({{"taskId", error.key()}, {"code", to_string(error.code())}, {"message", error.message()}});
  }
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

asio::awaitable<Json> list(Call call) {
  const auto& params = call.params;
  const auto owner = params.text("ownerId");
  const auto cursor = params.text_if("cursor").value_or("");
  ListTasks what{.cursor = cursor};
  if (params.has("status")) what.status = status_of(params);
  what.limit = params.count_if("limit").value_or(what.limit);
  if (what.limit < 1 || what.limit > max_record_page) {
    throw bad_params("limit: must be 1 to " + std::to_string(max_record_page));
  }
  auto tasks = co_await call.session->service().tasks();
  const auto page = co_await tasks.list(owner, what);
  std::string records = "[";
  for (const auto& task : page.tasks) {
    if (records.size() > 1) records += ',';
    records += to_json(task).str();
  }
  JsonObject result;
  result.add("tasks", records + "]");
  if (!page.unreadable.empty()) result.add("unreadable", unreadable_json(page.unreadable));
  if (!page.cursor.empty()) result.add("nextCursor", Json::string(page.cursor).value_or_throw().str());
  co_return result.json();
}

asio::awaitable<Json> update_status(Call call) {
  const auto target = target_of(call.params);
  const auto status = status_of(call.params);
  const auto message = call.params.text_if("statusMessage");
  auto tasks = co_await tasks_for_writing(call);
  const auto task = co_await tasks.update_status(target.owner, target.id, status, message);
  co_return to_json(task);
}

asio::awaitable<Json> set_variables(Call call) {
  const auto target = target_of(call.params);
  const auto changes = call.params.json("variables");
  auto tasks = co_await tasks_for_writing(call);
  const auto task = co_await tasks.set_variables(target.owner, target.id, changes);
  co_return to_json(task);
}

asio::awaitable<Json> set_result(Call call) {
  const auto target = target_of(call.params);
  const auto result = call.params.json("result");
  auto tasks = co_await tasks_for_writing(call);
  const auto task = co_await tasks.set_result(target.owner, target.id, result);
  co_return to_json(task);
}

asio::awaitable<Json> get_result(Call call) {
  const auto target = target_of(call.params);
  auto tasks = co_await call.session->service().tasks();
  const auto result = co_await tasks.get_result(target.owner, target.id);
  co_return result.value_or(Json());
}

/// Without a result, one that was set before stays.
asio::awaitable<Json> complete(Call call) {
  const auto target = target_of(call.params);
  const auto result = call.params.json_if("result");
  const auto message = call.params.text_if("statusMessage");
  auto tasks = co_await tasks_for_writing(call);
  std::optional<Task> task;
  if (result) {
    task = co_await tasks.complete_with_result(target.owner, target.id, *result, message);
  } else {
    task = co_await tasks.update_status(target.owner, target.id, TaskStatus::completed, message);
  }
  co_return to_json(*task);
}

asio::awaitable<Json> fail(Call call) {
  const auto target = target_of(call.params);
  const auto result = call.params.json_if("result");
  const auto message = call.params.text_if("statusMessage");
  auto tasks = co_await tasks_for_writing(call);
  std::optional<Task> task;
  if (result) {
    task = co_await tasks.fail_with_result(target.owner, target.id, *result, message);
  } else {
    task = co_await tasks.fail(target.owner, target.id, message);
  }
  co_return to_json(*task);
}

asio::awaitable<Json> cancel(Call call) {
  const auto target = target_of(call.params);
  const auto message = call.params.text_if("statusMessage");
  auto tasks = co_await call.session->service().tasks();
  const auto task = co_await tasks.cancel(target.owner, target.id, message);
  co_return to_json(task);
}

asio::awaitable<Json> remove(Call call) {
  const auto target = target_of(call.params);
  auto tasks = co_await tasks_for_writing(call);
  const bool removed = co_await tasks.remove(target.owner, target.id);
  co_return ok(removed);
}

asio::awaitable<Json> wait(Call call) {
  const auto target = target_of(call.params);
  const auto timeout = call.params.milliseconds_if("timeoutMs").value_or(no_time_limit);
  auto tasks = co_await call.session->service().tasks();
  const auto task = co_await tasks.wait(target.owner, target.id, timeout);
  co_return task ? to_json(*task) : Json();
}

asio::awaitable<Json> bind(Call call) {
  const auto target = target_of(call.params);
  const auto token = co_await fencing_token(call);
  if (!token) throw bad_params("give lockId, or fence and lockKey: the lock that is to guard the task");
  auto tasks = co_await tasks_meant(call);
  const auto task = co_await tasks.bind(target.owner, target.id, *token);
  co_return to_json(task);
}

asio::awaitable<Json> rebind(Call call) {
  const auto target = target_of(call.params);
  const auto token = co_await fencing_token(call);
  const auto from = call.params.text_if("fromAuthority");
  auto tasks = co_await call.session->service().tasks();
  if (from) {
    const auto moved = co_await tasks.rebind_from(*from, target.owner, target.id, token);
    co_return to_json(moved);
  }
  const auto task = co_await tasks.rebind(target.owner, target.id, token);
  co_return to_json(task);
}

/// The claim's lock becomes one of the client's: it is renewed, told of when lost, and released with the
/// client, as any other, and writes name it by its id.
asio::awaitable<Json> claim(Call call) {
  auto& session = *call.session;
  check_room_for_lock(session.held());
  const auto target = target_of(call.params);
  const auto how = lock_options(call.params);
  auto tasks = co_await session.service().tasks();
  auto claiming = co_await tasks.claim(target.owner, target.id, how);
  auto claimed = std::move(claiming).into_claim();
  const auto task = claimed.task();
  AsyncGuard guard(session.service().executor(), std::move(claimed.guard()));
  JsonObject result;
  const auto lock = granted(guard.id().str(), guard.fence(), guard.expires_at_ms());
  for (const auto& [name, value] : members_of(lock)) result.add(name, value);
  result.add("task", to_json(task).str());
  HeldLocks::ClaimedTaskName claimed_task{
      .owner = target.owner, .id = target.id, .incarnation = task.incarnation};
  session.held().add(std::move(guard), std::move(claimed_task));
  co_return result.json();
}

asio::awaitable<Json> cleanup_expired(Call call) {
  auto tasks = co_await call.session->service().tasks();
  const auto removed = co_await tasks.cleanup_expired();
  co_return Json::unchecked("{\"removed\":" + std::to_string(removed) + "}");
}

template <std::size_t... Sizes>
consteval auto joined(const std::array<Parameter, Sizes>&... parts) {
  std::array<Parameter, (Sizes + ...)> all{};
  std::size_t at = 0;
  const auto append = [&](const auto& part) {
    for (const auto& parameter : part) all[at++] = parameter;
  };
  (append(parts), ...);
  return all;
}

constexpr std::array owner{Parameter{"ownerId", Kind::text}};
constexpr std::array task{Parameter{"ownerId", Kind::text}, Parameter{"taskId", Kind::text}};
/// See fencing_token.
constexpr std::array fence{
    Parameter{"lockId", Kind::text, Need::optional}, Parameter{"fence", Kind::fence, Need::optional},
    Parameter{"lockKey", Kind::text, Need::optional}, Parameter{"authority", Kind::text, Need::optional}};
constexpr std::array incarnation{Parameter{"incarnation", Kind::text, Need::optional}};
constexpr std::array message{Parameter{"statusMessage", Kind::text, Need::optional}};
constexpr std::array some_result{Parameter{"result", Kind::any}};
constexpr std::array maybe_result{Parameter{"result", Kind::any, Need::optional}};

constexpr auto create_parameters =
    joined(owner, std::array{Parameter{"requestMethod", Kind::text, Need::optional},
                             Parameter{"ttl", Kind::milliseconds, Need::optional},
                             Parameter{"pollInterval", Kind::milliseconds, Need::optional},
                             Parameter{"variables", Kind::object, Need::optional},
                             Parameter{"requestKey", Kind::text, Need::optional}});
constexpr auto list_parameters = joined(owner, std::array{Parameter{"status", Kind::text, Need::optional},
                                                          Parameter{"cursor", Kind::text, Need::optional},
                                                          Parameter{"limit", Kind::count, Need::optional}});
constexpr auto status_parameters =
    joined(task, std::array{Parameter{"status", Kind::text}}, message, fence, incarnation);
constexpr auto variables_parameters =
    joined(task, std::array{Parameter{"variables", Kind::object}}, fence, incarnation);
constexpr auto set_result_parameters = joined(task, some_result, fence, incarnation);
constexpr auto with_result_parameters = joined(task, some_result, message, fence, incarnation);
constexpr auto end_parameters = joined(task, maybe_result, message, fence, incarnation);
constexpr auto cancel_parameters = joined(task, message);
constexpr auto guarded_parameters = joined(task, fence, incarnation);
constexpr auto rebind_parameters =
    joined(task, fence, std::array{Parameter{"fromAuthority", Kind::text, Need::optional}});
constexpr auto wait_parameters =
    joined(task, std::array{Parameter{"timeoutMs", Kind::milliseconds, Need::optional}});
constexpr auto claim_parameters =
    joined(task, std::array{Parameter{"ttlMs", Kind::milliseconds, Need::optional},
                            Parameter{"waitMs", Kind::wait, Need::optional},
                            Parameter{"retries", Kind::count, Need::optional},
                            Parameter{"maxHoldMs", Kind::milliseconds, Need::optional}});

constexpr std::array all_task_methods{
    Method{"task.create", create_parameters, create},
    Method{"task.get", task, get},
    Method{"task.list", list_parameters, list},
    Method{"task.updateStatus", status_parameters, update_status},
    Method{"task.setVariables", variables_parameters, set_variables},
    Method{"task.setResult", set_result_parameters, set_result},
    Method{"task.getResult", task, get_result},
    Method{"task.completeWithResult", with_result_parameters, complete},
    Method{"task.complete", end_parameters, complete},
    Method{"task.fail", end_parameters, fail},
    Method{"task.cancel", cancel_parameters, cancel},
    Method{"task.remove", guarded_parameters, remove},
    Method{"task.wait", wait_parameters, wait, Pace::waits},
    Method{"task.claim", claim_parameters, claim, Pace::waits, Answer::needed},
    Method{"task.bind", guarded_parameters, bind},
    Method{"task.rebind", rebind_parameters, rebind},
    Method{"task.cleanupExpired", {}, cleanup_expired},
};

}  // namespace

std::span<const Method> task_methods() {
  return all_task_methods;
}

}  // namespace holdfast::cli::rpc
