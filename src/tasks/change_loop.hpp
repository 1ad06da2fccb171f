#pragma once

#include <functional>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <variant>

#include "tasks/record.hpp"

namespace holdfast::tasks {

/// A change of a record.
struct Change {
  /// Edits the record, or returns why it cannot.
  std::function<Status(TaskRecord&)> apply;
  /// Called when another writer wrote between our read and our write: whether the change still means the
  /// same. Empty: always.
  std::function<bool(const TaskRecord& as_first_read, const TaskRecord& now)> still_meant = {};
};

/// Optimistic read-change-write, retried after a conflict with another writer. Decides only; no I/O.
class ChangeLoop {
 public:
  struct Read {};
  struct Write {
    RecordData data;
    ExpectedVersion expected;
    bool leaves_queue = false;  ///< it is final
    bool is_dead = false;       ///< it is failed
  };
  struct Finished {
    Result<Task> result;
  };
  using Action = std::variant<Read, Write, Finished>;

  /// A race is lost only if another writer succeeds, so this many losses in a row mean that very many write
  /// to this task at once.
  static constexpr int max_attempts = 50;

  /// Every write carries `fence`. `incarnation` names the one task that is meant, though another may have its
  /// id by now; empty: any task with the id.
  ChangeLoop(std::string id, std::string owner, Change change, std::optional<FencingToken> fence,
             std::string incarnation)
      : id_(std::move(id)),
        owner_(std::move(owner)),
        change_(std::move(change)),
        fence_(std::move(fence)),
        incarnation_(std::move(incarnation)) {}

  [[nodiscard]] Action start() const { return Read{}; }
  [[nodiscard]] Action resume(const Result<std::optional<StoredRecord>>& answer, WallTime now);
  [[nodiscard]] Action resume(const Result<PutOutcome>& answer);

 private:
  std::string id_, owner_;
  Change change_;
  std::optional<FencingToken> fence_;
  std::string incarnation_;
  int attempts_ = 0;
  std::optional<TaskRecord> first_;  ///< kept if `still_meant` needs it
  Task edited_;                      ///< as it will be if the write succeeds
};

/// The incarnation; empty if it is that of a record of other software, which does not last: it is a digest of
/// the data that was read. Since then the record may have been written, and may have got a real incarnation.
[[nodiscard]] std::string lasting_incarnation(std::string_view incarnation);
/// Whether an incarnation names this record; an empty one names any. A record of other software has no
/// lasting incarnation yet (see StoredRecord), so that one identifies no record.
[[nodiscard]] bool is_same_incarnation(std::string_view meant, std::string_view there) noexcept;

/// The record as a task, if it is a task of this owner.
[[nodiscard]] Result<TaskRecord> record_of(const std::optional<StoredRecord>& stored, std::string_view id,
                                           std::string_view owner);

}  // namespace holdfast::tasks
