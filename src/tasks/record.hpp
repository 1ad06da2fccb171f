#pragma once

#include <holdfast/storage_types.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tasks/members.hpp"

namespace holdfast::tasks {

// Members of a task's `_meta`, which other software keeps when it rewrites a record.
inline constexpr std::string_view meta_requester = "holdfast/requester";
inline constexpr std::string_view meta_retry_of = "holdfast/retryOf";

/// A task's record: the JSON that is stored. Members that a newer writer added are kept, and unchanged values
/// keep their spelling.
class TaskRecord {
 public:
  struct Beginning {
    std::string id, owner, method;
    WallTime now = {};
    std::optional<std::chrono::milliseconds> ttl;  ///< empty: it does not expire until it has ended
    std::chrono::milliseconds poll_interval{};
    Members variables;
    Members meta = {};
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
  /// It expires after `retention`, if it has no such time already: for a task that ends.
  void keep_for(std::chrono::milliseconds retention, WallTime now);
  /// Never earlier than it was.
  void touch(WallTime now);

  /// Its members in the documented order, followed by unknown ones.
  [[nodiscard]] std::string text() const { return text(variables_.text()); }
  /// `stored`: what the engine knows of it beside the text.
  [[nodiscard]] Task task(const StoredRecord& stored) const;

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
