#pragma once

#include <holdfast/storage_types.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

#include "tasks/members.hpp"

namespace holdfast::tasks {

/// A task's record: the JSON that is stored. Members that a newer writer added are kept, and unchanged values
/// keep their spelling.
class TaskRecord {
 public:
  struct Beginning {
    std::string id, owner, method;
    WallTime now = {};
    std::chrono::milliseconds ttl{};
    std::chrono::milliseconds poll_interval{};
    Members variables;
  };
  [[nodiscard]] static TaskRecord begin(const Beginning& beginning);
  /// Internal if the text is not such a record. `id` is its name, for the message.
  [[nodiscard]] static Result<TaskRecord> parse(const std::string& text, std::string_view id);

  [[nodiscard]] TaskStatus status() const noexcept { return status_; }
  [[nodiscard]] const Members& variables() const noexcept { return variables_; }
  /// JSON.
  [[nodiscard]] const std::string& result() const { return *record_.find("result"); }
  [[nodiscard]] std::string owner() const { return record_.string("ownerId").value_or(""); }

  void set_status(TaskStatus status, const std::optional<std::string>& message);
  /// Null deletes.
  void merge_variables(const Members& changes) { variables_.merge(changes); }
  void set_result(const Json& result) { record_.set("result", result.str()); }
  /// Never earlier than it was.
  void touch(WallTime now);

  /// Its members in the documented order, followed by unknown ones.
  [[nodiscard]] std::string text() const { return text(variables_.text()); }
  [[nodiscard]] Task task(std::uint64_t version, std::string incarnation,
                          std::optional<FencingToken> bound_to) const;

 private:
  TaskRecord(Members record, Members head, Members variables, TaskStatus status)
      : record_(std::move(record)),
        head_(std::move(head)),
        variables_(std::move(variables)),
        status_(status) {}

  [[nodiscard]] std::string text(std::string_view variables) const;

  Members record_;  ///< without those two:
  Members head_;    ///< its "task"
  Members variables_;
  TaskStatus status_;
};

/// The record of a task, to be stored. TooLarge if it is.
[[nodiscard]] Result<RecordData> record_data(const Task& task);

}  // namespace holdfast::tasks
