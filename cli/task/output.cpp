#include "task/output.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

/// Text that fits a cell of a table.
std::string cell(std::string_view text) {
  constexpr std::size_t columns = 40;
  return shortened(printable(text), columns);
}

std::string when(std::int64_t ms_since_epoch) {
  return iso_time(ms_since_epoch) + " (" + describe(time_since(ms_since_epoch)) + " ago)";
}

std::string guard_of(const std::optional<FencingToken>& token) {
  if (!token) return "none";
  return token->fence.to_string() + " of the lock " + token->lock_key + " (authority " + token->authority +
         ")";
}

}  // namespace

void print_task(const Context& context, const Task& task) {
  if (context.json) {
    print_json_text(rpc::to_json(task));
    return;
  }
  Fields fields{{"id", task.id}, {"owner", task.owner}, {"status", std::string(to_string(task.status))}};
  if (task.status_message) fields.emplace_back("message", *task.status_message);
  if (!task.request_method.empty()) fields.emplace_back("method", task.request_method);
  fields.emplace_back("created", when(task.created_at_ms));
  fields.emplace_back("updated", when(task.last_updated_at_ms));
  fields.emplace_back("expires", task.expires_at_ms ? expiry(*task.expires_at_ms) : "never");
  fields.emplace_back("variables", rpc::on_one_line(task.variables.str()));
  fields.emplace_back("result", rpc::on_one_line(task.result.str()));
  fields.emplace_back("version", std::to_string(task.version));
  fields.emplace_back("fence", guard_of(task.guarded_by));
  print_fields(fields);
}

std::vector<std::string> task_columns() {
  return {"ID", "STATUS", "AGE", "TTL LEFT", "PROGRESS", "METHOD"};
}

std::vector<std::string> task_row(const Task& task) {
  return {printable(task.id),
          std::string(to_string(task.status)),
          describe(time_since(task.created_at_ms)),
          task.expires_at_ms ? describe(time_until(*task.expires_at_ms)) : "-",
          progress_of(task),
          cell(task.request_method)};
}

void complain_unreadable(const Context& context, std::string_view owner, const Error& error) {
  complain_left_out(context, "a task of the owner " + quote(owner), error);
}

Error no_owner(std::string_view stored) {
  return {ErrorCode::Internal, "records are stored under the owner " + quote(stored) +
                                   ", which no owner's name is stored as; find out what wrote them"};
}

void complain_left_out(const Context& context, std::string_view what, const Error& error) {
  const auto message = std::string(what) + " is left out: " + error.message();
  complain(context.json, to_string(error.code()), context.json ? message : printable(message));
}

void print_changed(const Context& context, const Task& task) {
  if (context.json) print_json_text(rpc::to_json(task));
}

std::string progress_of(const Task& task) {
  std::string_view progress;
  for (const auto& [name, value] : rpc::members_of(task.variables)) {
    if (name == "progress") progress = value;
  }
  if (progress.empty()) return {};
  if (progress.front() == '{' || progress.front() == '[') return cell(rpc::on_one_line(progress));
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

}  // namespace holdfast::cli
