#include "serve/site/store_requests.hpp"

#include <holdfast/json.hpp>
#include <holdfast/printable.hpp>
#include <map>
#include <utility>

#include "rpc/protocol/error_text.hpp"
#include "serve/content/snapshot_json.hpp"
#include "view/rows.hpp"

namespace holdfast::serve {
namespace {

constexpr std::size_t max_reason_bytes = 512;
/// Their data is read with them.
constexpr std::size_t tasks_of_queue_at_once = 100;

/// The members of the body that are texts. Throws Error(InvalidArgument) if it is not an object.
std::map<std::string, std::string> texts_of(const Request& request) {
  const auto json = Json::parse(request.body).value_or_throw();
  if (!json.is_object()) throw Error(ErrorCode::InvalidArgument, "the body must be a JSON object");
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : members_of(json)) {
    if (auto text = string_in(value)) texts[name] = *std::move(text);
  }
  return texts;
}

const std::string& required(const std::map<std::string, std::string>& texts, std::string_view name) {
  const auto found = texts.find(std::string(name));
  if (found == texts.end() || found->second.empty()) {
    throw Error(ErrorCode::InvalidArgument, "\"" + std::string(name) + "\" is missing");
  }
  return found->second;
}

/// It goes to logs: a line break in it could forge another line.
std::string reason_of(const std::map<std::string, std::string>& texts) {
  const auto& reason = required(texts, "reason");
  if (reason.size() > max_reason_bytes || printable(reason) != reason ||
      reason.find_first_not_of(' ') == std::string::npos) {
    throw Error(ErrorCode::InvalidArgument,
                "\"reason\" must be one line of at most 512 bytes without control characters");
  }
  return reason;
}

int status_of(const Error& error) noexcept {
  switch (error.code()) {
    case ErrorCode::InvalidArgument:
      return 400;
    case ErrorCode::NotFound:
      return 404;
    case ErrorCode::InvalidTransition:
    case ErrorCode::ConcurrentChange:
    case ErrorCode::WrongLock:
      return 409;
    case ErrorCode::NetworkTimeout:
      return 504;
    case ErrorCode::ServiceUnavailable:
    case ErrorCode::RateLimited:
    case ErrorCode::Aborted:
      return 503;
    default:
      return 500;
  }
}

/// After an action: a reply that did not come is not a refusal.
bool is_unknown(const Error& error) noexcept {
  return error.transient() && error.effect() != Effect::none;
}

Response ok_response(std::string body) {
  return {.body = std::move(body)};
}

}  // namespace

/// One action as it is audited.
struct StoreRequests::Action {
  std::string_view name;
  std::vector<AuditLine::Field> what;
  std::string reason;
  const std::string& peer;
};

StoreRequests::StoreRequests(Holdfast store, view::StoreView& view, Settings settings)
    : store_(std::move(store)), view_(view), settings_(std::move(settings)) {}

Tasks StoreRequests::tasks() const {
  return store_.tasks({.allow_anonymous = true});
}

Tasks StoreRequests::tasks_of(const std::map<std::string, std::string>& texts) const {
  const auto incarnation = texts.find("incarnation");
  return incarnation == texts.end() ? tasks() : tasks().with_incarnation(incarnation->second);
}

Response StoreRequests::audited(const Action& action, const std::function<Response()>& carry_out) {
  Response response;
  AuditLine line{.event = "action"};
  line.fields.push_back({.name = "action", .value = std::string(action.name)});
  line.fields.insert(line.fields.end(), action.what.begin(), action.what.end());
  if (!action.reason.empty()) {
    line.fields.push_back({.name = "reason", .value = action.reason, .is_text = true});
  }
  line.fields.push_back({.name = "peer", .value = action.peer, .is_text = true});
  std::string result;
  std::string code;
  try {
    response = carry_out();
    result = response.status == 200 ? "done" : "nothing-to-do";
  } catch (const Error& error) {
    result = is_unknown(error) ? "unknown" : "failed";
    auto message = rpc::text_of(error);
    if (is_unknown(error)) message += ". Whether it was carried out is unknown: look before you repeat it.";
    response =
        error_response(status_of(error), is_unknown(error) ? "Unknown" : to_string(error.code()), message);
    code = to_string(error.code());
  }
  line.fields.push_back({.name = "result", .value = result});
  if (!code.empty()) line.fields.push_back({.name = "error", .value = code, .is_text = true});
  if (settings_.audit) settings_.audit(line);
  return response;
}

Response StoreRequests::break_lock(const Request& request, const std::string& peer) {
  const auto texts = texts_of(request);
  const auto key = LockKey::parse(required(texts, "key")).value_or_throw().str();
  const auto fence = Fence::parse(required(texts, "fence")).value_or_throw();
  const Action action{
      .name = "break_lock",
      .what = {{.name = "key", .value = key, .is_text = true}, {.name = "fence", .value = fence.to_string()}},
      .reason = reason_of(texts),
      .peer = peer};
  auto response = audited(action, [&]() -> Response {
    const auto broken = store_.locks().break_lock(key, action.reason, fence, stop_.get_token());
    if (!broken) {
      return error_response(409, "NotHeld",
                            "the lock is not held with this fence any more. Nothing was changed.");
    }
    JsonText json;
    json.begin_object().name("broken");
    write_lock(json, view::row_of(key, *broken));
    json.end_object();
    view_.refresh_broken_lock(key);
    return ok_response(std::move(json.str()));
  });
  if (response.status != 200) view_.refresh_lock(key);
  return response;
}

Response StoreRequests::cancel_task(const Request& request, const std::string& peer) {
  const auto texts = texts_of(request);
  const auto& owner = required(texts, "owner");
  const auto& id = required(texts, "id");
  const Action action{.name = "cancel_task",
                      .what = {{.name = "owner", .value = owner, .is_text = true},
                               {.name = "id", .value = id, .is_text = true}},
                      .reason = reason_of(texts),
                      .peer = peer};
  auto response = audited(action, [&] {
    const auto task = tasks_of(texts).cancel(owner, id, action.reason, stop_.get_token());
    JsonText json;
    json.begin_object().name("cancelled");
    write_task(json, view::row_of(task));
    json.end_object();
    return ok_response(std::move(json.str()));
  });
  view_.refresh_task(owner, id);
  return response;
}

Response StoreRequests::remove_task(const Request& request, const std::string& peer) {
  const auto texts = texts_of(request);
  const auto& owner = required(texts, "owner");
  const auto& id = required(texts, "id");
  const Action action{.name = "remove_task",
                      .what = {{.name = "owner", .value = owner, .is_text = true},
                               {.name = "id", .value = id, .is_text = true}},
                      .reason = reason_of(texts),
                      .peer = peer};
  auto response = audited(action, [&]() -> Response {
    if (!tasks_of(texts).remove(owner, id, stop_.get_token())) {
      return error_response(404, "NotFound", "the task does not exist any more");
    }
    return ok_response(R"({"removed":true})");
  });
  view_.refresh_task(owner, id);
  return response;
}

Response StoreRequests::task(const Request& request) {
  std::string owner;
  std::string id;
  const auto parameters = parse_parameters(request.query);
  if (!parameters) throw Error(ErrorCode::InvalidArgument, "the query has an invalid escape");
  for (const auto& [name, value] : *parameters) {
    if (name == "owner") owner = value;
    if (name == "id") id = value;
  }
  if (owner.empty() || id.empty()) throw Error(ErrorCode::InvalidArgument, R"("owner" and "id" are needed)");

  const auto task = tasks().get(owner, id, stop_.get_token());
  auto row = view::row_of(task);
  // The lock that guards it now, read for itself: the snapshot may be a second old.
  const auto lock_key = task.bound_to ? task.bound_to->lock_key : row.lock_key;
  const auto lock = store_.locks().get_by_key(lock_key, stop_.get_token());
  row.has_worker = lock.has_value();
  if (lock && lock->holder) row.worker = lock->holder->str();

  JsonText json;
  json.begin_object().name("task");
  write_task(json, row);
  if (task.bound_to) {
    json.name("guard").begin_object().name("key").text(task.bound_to->lock_key);
    json.name("fence").text(task.bound_to->fence.to_string());
    json.name("authority").text(task.bound_to->authority).end_object();
  }
  if (lock) {
    json.name("lock");
    write_lock(json, view::row_of(lock_key, *lock));
  }
  if (task.ttl) json.name("ttlMs").number(task.ttl->count());
  json.name("dataShown").boolean(settings_.show_data);
  if (settings_.show_data)
    json.name("variables").raw(task.variables.str()).name("result").raw(task.result.str());
  // Grants and losses of its lock, and changes of its status: its last attempts, as far as they were seen.
  json.name("events").begin_array();
  if (const auto snapshot = view_.latest(); snapshot->events) {
    for (const auto& event : *snapshot->events) {
      const bool is_of_task = event.owner == owner && event.task_id == id;
      if (is_of_task || event.key == lock_key) write_event(json, event);
    }
  }
  json.end_array().end_object();
  return ok_response(std::move(json.str()));
}

Response StoreRequests::queue(const Request& request) {
  std::string name;
  ListTasks what{.limit = tasks_of_queue_at_once};
  const auto parameters = parse_parameters(request.query);
  if (!parameters) throw Error(ErrorCode::InvalidArgument, "the query has an invalid escape");
  for (const auto& [parameter, value] : *parameters) {
    if (parameter == "name") name = value;
    if (parameter == "cursor") what.cursor = value;
    if (parameter == "status") {
      what.status = parse_task_status(value);
      if (!what.status) throw Error(ErrorCode::InvalidArgument, "\"status\" is not a status of tasks");
    }
  }
  if (name.empty()) throw Error(ErrorCode::InvalidArgument, "\"name\" is needed");

  const auto queue = store_.queue(name);
  const auto counts = queue.counts(stop_.get_token());
  const auto page = queue.list(what, stop_.get_token());
  JsonText json;
  json.begin_object().name("queue");
  write_queue(json, view::row_of(name, counts));
  json.name("tasks").begin_array();
  for (const auto& task : page.tasks) write_queue_task(json, task);
  json.end_array().name("unreadable").number(page.unreadable.size());
  if (!page.cursor.empty()) json.name("cursor").text(page.cursor);
  json.end_object();
  return ok_response(std::move(json.str()));
}

}  // namespace holdfast::serve
