#include "tasks/record.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/rfc3339.hpp"
#include "tasks/limits.hpp"

namespace holdfast::tasks {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::array<std::string_view, 8> head_order{"taskId",        "status", "statusMessage", "createdAt",
                                                     "lastUpdatedAt", "ttl",    "pollInterval",  "_meta"};
constexpr std::array<std::string_view, 6> record_order{"task",   "ownerId",       "variables",
                                                       "result", "requestMethod", "expiresAt"};

ordered_json in_order(const ordered_json& object, std::span<const std::string_view> order) {
  ordered_json sorted = ordered_json::object();
  for (const auto name : order) {
    if (const auto at = object.find(name); at != object.end()) sorted[std::string(name)] = *at;
  }
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(order, std::string_view(name)) == order.end()) sorted[name] = value;
  }
  return sorted;
}

Error no_record(const std::string& why) {
  return {ErrorCode::Internal, "the stored record is not a task's: " + why +
                                   "; it is left alone: find out who wrote it, or remove it"};
}

std::optional<std::string> string_in(const ordered_json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

std::optional<milliseconds> duration_in(const ordered_json& object, const char* name) {
  const auto at = object.find(name);
  // Another writer's number may have any form; what is no whole count of milliseconds of sensible size counts
  // as absent, and stays as it is in the record.
  if (at == object.end() || !at->is_number_integer()) return std::nullopt;
  const auto count = at->get<std::int64_t>();
  if (count < 0 || milliseconds(count) > std::chrono::years(1000)) return std::nullopt;
  return milliseconds(count);
}

std::optional<std::int64_t> time_in(const ordered_json& object, const char* name) {
  const auto text = string_in(object, name);
  return text ? core::parse_rfc3339_ms(*text) : std::nullopt;
}

Json as_json(const ordered_json& value) {
  return Json::unchecked(value.dump());
}

}  // namespace

TaskRecord TaskRecord::begin(Beginning beginning) {
  const auto now = core::format_rfc3339_ms(beginning.now_ms);
  ordered_json json{{"task",
                     {{"taskId", std::move(beginning.id)},
                      {"status", to_string(TaskStatus::working)},
                      {"createdAt", now},
                      {"lastUpdatedAt", now},
                      {"ttl", beginning.ttl.count()},
                      {"pollInterval", beginning.poll_interval.count()}}},
                    {"ownerId", std::move(beginning.owner)},
                    {"variables", std::move(beginning.variables)},
                    {"result", nullptr},
                    {"requestMethod", std::move(beginning.method)},
                    {"expiresAt", core::format_rfc3339_ms(beginning.now_ms + beginning.ttl.count())}};
  return TaskRecord(std::move(json), TaskStatus::working);
}

Result<TaskRecord> TaskRecord::parse(const std::string& text) {
  if (nesting(text) > max_nesting + 2) return no_record("it is nested too deeply");
  auto json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return no_record("it is no JSON object");
  const auto head = json.find("task");
  if (head == json.end() || !head->is_object()) return no_record("it has no \"task\"");
  if (!string_in(*head, "taskId")) return no_record("it has no \"taskId\"");
  const auto status_text = string_in(*head, "status");
  const auto status = status_text ? parse_task_status(*status_text) : std::nullopt;
  if (!status) return no_record("its \"status\" is missing or unknown");
  if (!string_in(json, "ownerId")) return no_record("it has no \"ownerId\"");
  auto& variables = json["variables"];
  if (variables.is_null()) variables = ordered_json::object();
  if (!variables.is_object()) return no_record("its \"variables\" are no object");
  if (!json.contains("result")) json["result"] = nullptr;
  return TaskRecord(std::move(json), *status);
}

const std::string& TaskRecord::owner() const {
  return json_.at("ownerId").get_ref<const std::string&>();
}

void TaskRecord::set_status(TaskStatus status, std::optional<std::string> message) {
  status_ = status;
  auto& head = json_["task"];
  head["status"] = to_string(status);
  head.erase("statusMessage");
  if (message) head["statusMessage"] = *std::move(message);
}

void TaskRecord::merge_variables(const ordered_json& changes) {
  auto& variables = json_["variables"];
  for (const auto& [name, value] : changes.items()) {
    if (value.is_null()) {
      variables.erase(name);
    } else {
      variables[name] = value;
    }
  }
}

void TaskRecord::touch(std::int64_t now_ms) {
  const auto before = time_in(head(), "lastUpdatedAt");
  if (before && *before >= now_ms) return;
  json_["task"]["lastUpdatedAt"] = core::format_rfc3339_ms(now_ms);
}

std::string TaskRecord::text() const {
  auto sorted = in_order(json_, record_order);
  sorted["task"] = in_order(head(), head_order);
  return sorted.dump();
}

Task TaskRecord::task(std::uint64_t version, std::optional<FencingToken> guarded_by) const {
  return {.id = *string_in(head(), "taskId"),
          .owner = owner(),
          .status = status_,
          .status_message = string_in(head(), "statusMessage"),
          .created_at_ms = time_in(head(), "createdAt").value_or(0),
          .last_updated_at_ms = time_in(head(), "lastUpdatedAt").value_or(0),
          .ttl = duration_in(head(), "ttl"),
          .poll_interval = duration_in(head(), "pollInterval"),
          .expires_at_ms = time_in(json_, "expiresAt"),
          .request_method = string_in(json_, "requestMethod").value_or(""),
          .variables = as_json(variables()),
          .result = as_json(result()),
          .record = Json::unchecked(text()),
          .version = version,
          .guarded_by = std::move(guarded_by)};
}

}  // namespace holdfast::tasks
