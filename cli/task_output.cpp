#include "task_output.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "duration.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const std::optional<FencingToken>& token) {
  if (!token) return nullptr;
  return {{"fence", token->fence.to_string()}, {"key", token->lock_key}, {"authority", token->authority}};
}

std::string describe(const std::optional<FencingToken>& token) {
  if (!token) return "none";
  return token->fence.to_string() + " of the lock " + token->lock_key + " (authority " + token->authority +
         ")";
}

}  // namespace

ordered_json to_json(const Task& task) {
  auto object = ordered_json::parse(task.record.str());
  // A newer writer's record may have members of these names; ours count, and come last.
  object.erase("version");
  object.erase("fence");
  object["version"] = task.version;
  object["fence"] = to_json(task.guarded_by);
  return object;
}

void print_task(const Context& context, const Task& task) {
  if (context.json) {
    print_json(to_json(task));
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
  fields.emplace_back("variables", task.variables.str());
  fields.emplace_back("result", task.result.str());
  fields.emplace_back("version", std::to_string(task.version));
  fields.emplace_back("fence", describe(task.guarded_by));
  print_fields(fields);
}

void print_changed(const Context& context, const Task& task) {
  if (context.json) print_json(to_json(task));
}

std::string progress_of(const Task& task) {
  const auto variables = ordered_json::parse(task.variables.str());
  const auto found = variables.find("progress");
  if (found == variables.end()) return {};
  if (found->is_string()) return printable(found->get<std::string>());
  if (found->is_number()) {
    const auto number = found->get<double>();
    if (number >= 0 && number <= 100) {
      return std::to_string(std::lround(number <= 1 ? number * 100 : number)) + " %";
    }
  }
  return printable(found->dump());
}

std::string age_of(std::int64_t ms_since_epoch) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return cli::describe(std::max(now.time_since_epoch() - std::chrono::milliseconds(ms_since_epoch),
                                std::chrono::milliseconds::zero()));
}

std::string time_left(const Task& task) {
  return task.expires_at_ms ? cli::describe(time_until(*task.expires_at_ms)) : "";
}

}  // namespace holdfast::cli
