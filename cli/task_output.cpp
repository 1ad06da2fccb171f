#include "task_output.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "duration.hpp"
#include "json_text.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

using nlohmann::ordered_json;

std::string fence_as_json(const std::optional<FencingToken>& token) {
  if (!token) return "null";
  const ordered_json object{
      {"fence", token->fence.to_string()}, {"key", token->lock_key}, {"authority", token->authority}};
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// So much of a text as a row of a table has room for.
std::string cell(std::string_view text) {
  constexpr std::size_t columns = 40;
  return shortened(printable(text), columns);
}

std::string guard_of(const std::optional<FencingToken>& token) {
  if (!token) return "none";
  return token->fence.to_string() + " of the lock " + token->lock_key + " (authority " + token->authority +
         ")";
}

}  // namespace

Json to_json(const Task& task) {
  JsonObject object;
  for (const auto& [name, value] : members_of(task.record)) {
    // A newer writer's record may have members of these names; ours count, and come last.
    if (name != "version" && name != "incarnation" && name != "fence") object.add(name, value);
  }
  object.add("version", std::to_string(task.version));
  object.add("incarnation", Json::string(task.incarnation).value_or_throw().str());
  object.add("fence", fence_as_json(task.guarded_by));
  return object.json();
}

void print_task(const Context& context, const Task& task) {
  if (context.json) {
    print_json_text(to_json(task));
    return;
  }
  std::vector<std::pair<std::string, std::string>> fields{
      {"id", task.id}, {"owner", task.owner}, {"status", std::string(to_string(task.status))}};
  if (task.status_message) fields.emplace_back("message", *task.status_message);
  if (!task.request_method.empty()) fields.emplace_back("method", task.request_method);
  fields.emplace_back("created", iso_time(task.created_at_ms) + " (" + age_of(task.created_at_ms) + " ago)");
  fields.emplace_back("updated",
                      iso_time(task.last_updated_at_ms) + " (" + age_of(task.last_updated_at_ms) + " ago)");
  fields.emplace_back("expires", task.expires_at_ms
                                     ? iso_time(*task.expires_at_ms) + " (in " + time_left(task) + ")"
                                     : "never");
  fields.emplace_back("variables", on_one_line(task.variables.str()));
  fields.emplace_back("result", on_one_line(task.result.str()));
  fields.emplace_back("version", std::to_string(task.version));
  fields.emplace_back("fence", guard_of(task.guarded_by));
  print_fields(fields);
}

std::vector<std::string> task_columns() {
  return {"ID", "STATUS", "AGE", "TTL LEFT", "PROGRESS", "METHOD"};
}

std::vector<std::string> task_row(const Task& task) {
  const auto left = time_left(task);
  return {printable(task.id),         std::string(to_string(task.status)),
          age_of(task.created_at_ms), left.empty() ? "-" : left,
          progress_of(task),          cell(task.request_method)};
}

void complain_unreadable(const Context& context, std::string_view owner, const Error& error) {
  const auto message = "a task of the owner " + quote(owner) + " is left out: " + error.message();
  if (context.json) {
    complain_json(to_string(error.code()), message);
  } else {
    complain(printable(message));
  }
}

void print_changed(const Context& context, const Task& task) {
  if (context.json) print_json_text(to_json(task));
}

std::string progress_of(const Task& task) {
  std::string_view progress;
  for (const auto& [name, value] : members_of(task.variables)) {
    if (name == "progress") progress = value;
  }
  if (progress.empty()) return {};
  if (progress.front() == '{' || progress.front() == '[') return cell(on_one_line(progress));
  const auto value = nlohmann::json::parse(progress);
  if (value.is_string()) return cell(value.get<std::string>());
  if (value.is_number()) {
    const auto number = value.get<double>();
    const bool fraction = value.is_number_float() && number >= 0 && number <= 1;
    const bool percentage = number == 0 || (number > 1 && number <= 100);
    if (fraction || percentage) return std::to_string(std::lround(fraction ? number * 100 : number)) + " %";
  }
  return cell(progress);
}

std::string age_of(std::int64_t ms_since_epoch) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return describe(std::max(now.time_since_epoch() - std::chrono::milliseconds(ms_since_epoch),
                           std::chrono::milliseconds::zero()));
}

std::string time_left(const Task& task) {
  return task.expires_at_ms ? describe(time_until(*task.expires_at_ms)) : "";
}

}  // namespace holdfast::cli
