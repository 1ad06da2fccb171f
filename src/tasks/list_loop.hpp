#pragma once

#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <string>
#include <string_view>
#include <variant>

namespace holdfast::tasks {

/// A position in an owner's list, as text for callers: printable, opaque, and valid for that owner only.
[[nodiscard]] Result<std::string> cursor_at(const ListPosition& position, std::string_view stored_owner);

/// BadCursor if it is not one that `cursor_at` made for this owner.
[[nodiscard]] Result<ListPosition> position_of(std::string_view cursor, std::string_view stored_owner);

/// Builds a page of an owner's tasks: decides which pages of records to read, and which records to use.
class ListLoop {
 public:
  struct Finished {
    Result<TaskPage> result;
  };
  using Action = std::variant<ListRecords, Finished>;

  /// With a filter a page may end before it is full; the caller continues with its cursor.
  static constexpr std::size_t max_records_looked_at = 10'000;

  /// The cursor needs to be valid only until `start` has returned. `created_before`: for
  /// ListTasks::older_than, which needs the engine's clock.
  ListLoop(std::string owner, std::string stored_owner, const ListTasks& what,
           std::optional<WallTime> created_before = {});

  [[nodiscard]] Action start();
  [[nodiscard]] Action resume(const Result<RecordPage>& answer);

 private:
  [[nodiscard]] ListRecords next_request(std::optional<ListPosition> after) const;
  /// Whether records are left out, so that a page of records may give few tasks.
  [[nodiscard]] bool is_filtered() const noexcept { return what_.status || what_.unclaimed; }
  [[nodiscard]] Finished finished(const std::optional<ListPosition>& next);

  std::string owner_, stored_owner_;
  ListTasks what_;
  std::optional<WallTime> created_before_;
  TaskPage page_;
  std::size_t looked_at_ = 0;
};

}  // namespace holdfast::tasks
