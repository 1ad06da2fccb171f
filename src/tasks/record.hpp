#pragma once

#include <holdfast/storage_types.hpp>
#include <holdfast/task_types.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace holdfast::tasks {

/// A task's record: the JSON that is stored. What a newer writer added to it stays, and so does the spelling
/// of what is not changed.
class TaskRecord {
 public:
  /// Requires a ttl that is at least a millisecond.
  struct Beginning {
    std::string id, owner, method;
    std::int64_t now_ms = 0;
    std::chrono::milliseconds ttl{};
    std::chrono::milliseconds poll_interval{};
    nlohmann::ordered_json variables;
  };
  [[nodiscard]] static TaskRecord begin(Beginning beginning);
  /// Internal if the text is not such a record.
  [[nodiscard]] static Result<TaskRecord> parse(const std::string& text);

  [[nodiscard]] TaskStatus status() const noexcept { return status_; }
  [[nodiscard]] const nlohmann::ordered_json& variables() const { return json_.at("variables"); }
  [[nodiscard]] const nlohmann::ordered_json& result() const { return json_.at("result"); }
  [[nodiscard]] const std::string& owner() const;

  void set_status(TaskStatus status, std::optional<std::string> message);
  /// Null deletes.
  void merge_variables(const nlohmann::ordered_json& changes);
  void set_result(nlohmann::ordered_json result) { json_["result"] = std::move(result); }
  /// Never earlier than it was.
  void touch(std::int64_t now_ms);

  /// Its members in the documented order, unknown ones behind them.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] Task task(std::uint64_t version, std::optional<FencingToken> guarded_by) const;

 private:
  explicit TaskRecord(nlohmann::ordered_json json, TaskStatus status)
      : json_(std::move(json)), status_(status) {}
  [[nodiscard]] const nlohmann::ordered_json& head() const { return json_.at("task"); }

  nlohmann::ordered_json json_;
  TaskStatus status_;
};

}  // namespace holdfast::tasks
