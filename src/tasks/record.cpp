#include "tasks/record.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/number.hpp"
#include "core/rfc3339.hpp"

namespace holdfast::tasks {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 8> head_order{"taskId",        "status", "statusMessage", "createdAt",
                                                     "lastUpdatedAt", "ttl",    "pollInterval",  "_meta"};
/// "task" comes before them, "variables" after the first.
constexpr std::array<std::string_view, 4> record_order{"ownerId", "result", "requestMethod", "expiresAt"};

Error no_record(std::string_view id, const std::string& why) {
  return Error(ErrorCode::Internal, "invalid record of the task " + std::string(id) + ": " + why +
                                        ". It was not changed; find the program that wrote it, or remove it")
      .about(id, {});
}

/// Reads an object; null counts as an empty one. Returns no value for anything else.
std::optional<Members> take_object(core::JsonScanner& scanner) {
  if (scanner.next() == core::JsonToken::object) return Members::read(scanner);
  const bool is_null = scanner.token() == core::JsonToken::null;
  scanner.finish_value();
  return is_null ? std::optional<Members>(Members()) : std::nullopt;
}

std::optional<milliseconds> duration_in(const Members& members, std::string_view name) {
  const auto* value = members.find(name);
  if (value == nullptr) return std::nullopt;
  // Another writer's number may have any form. A value that is not a whole number of milliseconds within
  // range counts as absent, and stays in the record unchanged.
  const auto count = core::whole_number<std::int64_t>(*value);
  if (!count || *count < 0 || milliseconds(*count) > std::chrono::years(1000)) return std::nullopt;
  return milliseconds(*count);
}

std::optional<WallTime> time_in(const Members& members, std::string_view name) {
  const auto text = members.string(name);
  return text ? core::parse_rfc3339(*text) : std::nullopt;
}

}  // namespace

TaskRecord TaskRecord::begin(const Beginning& beginning) {
  const auto now = json_string(core::format_rfc3339(beginning.now));
  Members head;
  head.set("taskId", json_string(beginning.id));
  head.set("status", json_string(to_string(TaskStatus::working)));
  head.set("createdAt", now);
  head.set("lastUpdatedAt", now);
  head.set("ttl", beginning.ttl ? std::to_string(beginning.ttl->count()) : "null");
  head.set("pollInterval", std::to_string(beginning.poll_interval.count()));
  if (!beginning.meta.all().empty()) head.set("_meta", beginning.meta.text());
  Members record;
  record.set("ownerId", json_string(beginning.owner));
  record.set("result", "null");
  record.set("requestMethod", json_string(beginning.method));
  record.set("expiresAt",
             beginning.ttl ? json_string(core::format_rfc3339(beginning.now + *beginning.ttl)) : "null");
  return {std::move(record), std::move(head), beginning.variables, TaskStatus::working};
}

Result<TaskRecord> TaskRecord::parse(const std::string& text, std::string_view id) {
  core::JsonScanner scanner(text);
  if (scanner.next() != core::JsonToken::object) return no_record(id, "not a JSON object");
  std::optional<Members> head = Members();
  std::optional<Members> variables = Members();
  auto record = Members::read(scanner, [&](std::string_view name) {
    if (name == "task") {
      head = take_object(scanner);
    } else if (name == "variables") {
      variables = take_object(scanner);
    } else {
      return false;
    }
    return true;
  });
  if (!scanner.at_end()) return no_record(id, "not a JSON object");
  if (!head) return no_record(id, "\"task\" is not an object");
  if (!head->string("taskId")) return no_record(id, "\"taskId\" is missing");
  const auto status_text = head->string("status");
  const auto status = status_text ? parse_task_status(*status_text) : std::nullopt;
  if (!status) return no_record(id, "\"status\" is missing or unknown");
  if (!record.string("ownerId")) return no_record(id, "\"ownerId\" is missing");
  if (!variables) return no_record(id, "\"variables\" is not an object");
  if (record.find("result") == nullptr) record.set("result", "null");
  return TaskRecord(std::move(record), *std::move(head), *std::move(variables), *status);
}

void TaskRecord::set_status(TaskStatus status, const std::optional<std::string>& message) {
  status_ = status;
  head_.set("status", json_string(to_string(status)));
  head_.erase("statusMessage");
  if (message) head_.set("statusMessage", json_string(*message));
}

void TaskRecord::touch(WallTime now) {
  const auto before = time_in(head_, "lastUpdatedAt");
  if (before && *before >= now) return;
  head_.set("lastUpdatedAt", json_string(core::format_rfc3339(now)));
}

std::string TaskRecord::text(std::string_view variables) const {
  const std::span<const std::string_view> order(record_order);
  const auto head = head_.text(head_order);
  const auto enough_for_others = result().size() + 512;
  std::string text = "{";
  text.reserve(head.size() + variables.size() + enough_for_others);
  add_member(text, "task", head);
  record_.add_named(text, order.first(1));
  add_member(text, "variables", variables);
  record_.add_named(text, order.subspan(1));
  record_.add_others(text, order);
  text += '}';
  return text;
}

void TaskRecord::keep_for(milliseconds retention, WallTime now) {
  if (time_in(record_, "expiresAt")) return;
  const auto expires_at = now + retention;
  record_.set("expiresAt", json_string(core::format_rfc3339(expires_at)));
  if (const auto created_at = time_in(head_, "createdAt")) {
    head_.set("ttl", std::to_string(std::max(expires_at - *created_at, milliseconds(1)).count()));
  }
}

Task TaskRecord::task(const StoredRecord& stored) const {
  const auto* found = head_.find("_meta");
  const bool has_meta = found != nullptr && found->starts_with('{');
  const auto meta = has_meta ? Members::of(Json::unchecked(*found)) : Members();
  auto variables = variables_.text();
  auto whole = text(variables);
  return {.id = head_.string("taskId").value_or(""),
          .owner = owner(),
          .status = status_,
          .status_message = head_.string("statusMessage"),
          .created_at = time_in(head_, "createdAt").value_or(WallTime{}),
          .last_updated_at = time_in(head_, "lastUpdatedAt").value_or(WallTime{}),
          .ttl = duration_in(head_, "ttl"),
          .poll_interval = duration_in(head_, "pollInterval"),
          .expires_at = time_in(record_, "expiresAt"),
          .request_method = record_.string("requestMethod").value_or(""),
          .variables = Json::unchecked(std::move(variables)),
          .result = Json::unchecked(result()),
          .record = Json::unchecked(std::move(whole)),
          .version = stored.version,
          .incarnation = stored.incarnation,
          .bound_to = stored.bound_to,
          .queue = stored.queue,
          .requester = meta.string(meta_requester).value_or(""),
          .retry_of = meta.string(meta_retry_of).value_or("")};
}

Result<RecordData> record_data(const Task& task) {
  const auto& text = task.record.str();
  if (text.size() > RecordData::max_bytes) {
    return Error(ErrorCode::TooLarge, "the task's record would be " + std::to_string(text.size()) +
                                          " bytes; at most " + std::to_string(RecordData::max_bytes) +
                                          " are allowed. Store large results elsewhere and refer to them");
  }
  return RecordData::unchecked(text, task.expires_at, task.created_at);
}

}  // namespace holdfast::tasks
