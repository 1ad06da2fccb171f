#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"
#include "rpc/protocol/message.hpp"

namespace holdfast::rpc {
namespace {

/// Names and messages may hold any bytes.
std::string unreadable_json(const std::vector<Error>& unreadable) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& error : unreadable) {
    all.push_back({{"taskId", error.key()}, {"code", to_string(error.code())}, {"message", error.message()}});
  }
  return dump(all).str();
}

}  // namespace

TaskStatus status_of(const Params& params) {
  if (const auto status = parse_task_status(params.text("status"))) return *status;
  throw bad_params("status: must be working, input_required, completed, failed or cancelled");
}

ListTasks list_options(const Params& params, const std::string& cursor) {
  ListTasks what{.cursor = cursor};
  if (params.has("status")) what.status = status_of(params);
  what.older_than = params.milliseconds_if("olderThanMs").value_or(what.older_than);
  what.oldest_first = params.boolean_if("oldestFirst").value_or(false);
  what.unclaimed = params.boolean_if("unclaimed").value_or(false);
  what.limit = params.count_if("limit").value_or(what.limit);
  if (what.limit < 1 || what.limit > max_record_page) {
    throw bad_params("limit: must be 1 to " + std::to_string(max_record_page));
  }
  return what;
}

Json to_json(const TaskPage& page) {
  std::vector<std::string> records;
  records.reserve(page.tasks.size());
  for (const auto& task : page.tasks) records.push_back(to_json(task).str());
  JsonObject result;
  result.add("tasks", array_of(records));
  if (!page.unreadable.empty()) result.add("unreadable", unreadable_json(page.unreadable));
  if (!page.cursor.empty()) result.add("nextCursor", Json::string(page.cursor).value_or_throw().str());
  return result.json();
}

}  // namespace holdfast::rpc
