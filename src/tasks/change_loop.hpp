#pragma once

#include <functional>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <variant>

#include "tasks/record.hpp"

namespace holdfast::tasks {

/// What a change does to a record.
struct Change {
  /// Edits the record, or says why it cannot.
  std::function<Status(TaskRecord&)> apply;
  /// Asked when somebody else wrote between our read and our write: whether the change still means the same.
  /// Empty: always.
  std::function<bool(const TaskRecord& as_first_read, const TaskRecord& now)> still_meant = {};
};

/// Read, change, write if nobody else wrote meanwhile, else again: the decisions, without I/O.
class ChangeLoop {
 public:
  struct Read {};
  struct Write {
    RecordData data;
    ExpectedVersion expected;
  };
  struct Finished {
    Result<Task> result;
  };
  using Action = std::variant<Read, Write, Finished>;

  /// A race is lost only if somebody else's write succeeds, so this many in a row mean that this task is
  /// written to by very many at once.
  static constexpr int max_attempts = 50;

  /// `fence` is what every write will carry. `incarnation` is that of the one task that is meant, though
  /// another may have its id by now; empty: whichever is there.
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
  std::optional<TaskRecord> first_;  ///< where `still_meant` asks for it
  Task edited_;                      ///< as it will be if the write succeeds
};

/// The incarnation, or nothing if it is that of a record of other software, which does not last: the digest
/// of what it held when it was read. It may have been written to since, and may have got one of its own.
[[nodiscard]] std::string lasting_incarnation(std::string_view incarnation);
/// Whether a record is the one that an incarnation, or an empty text for any, names. One of other software
/// has none of its own yet (see StoredRecord): it names no record for good.
[[nodiscard]] bool is_same_incarnation(std::string_view meant, std::string_view there) noexcept;

/// The record as a task, if it is one and this owner's.
[[nodiscard]] Result<TaskRecord> record_of(const std::optional<StoredRecord>& stored, std::string_view id,
                                           std::string_view owner);

}  // namespace holdfast::tasks
