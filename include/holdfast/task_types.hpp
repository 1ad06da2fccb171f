#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/export.hpp>
#include <holdfast/json.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// working → input_required, completed, failed, cancelled; input_required → working and the same; the last
/// three are final. No state moves to itself.
enum class TaskStatus : std::uint8_t { working, input_required, completed, failed, cancelled };

[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(TaskStatus status) noexcept;
[[nodiscard]] HOLDFAST_EXPORT std::optional<TaskStatus> parse_task_status(std::string_view text) noexcept;
[[nodiscard]] HOLDFAST_EXPORT bool is_final(TaskStatus status) noexcept;
[[nodiscard]] HOLDFAST_EXPORT bool may_become(TaskStatus from, TaskStatus to) noexcept;

/// A task as it was when it was read. Times are by the engine's clock.
struct Task {
  std::string id;
  std::string owner;
  TaskStatus status = TaskStatus::working;
  std::optional<std::string> status_message;
  WallTime created_at = {};
  WallTime last_updated_at = {};
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::milliseconds> poll_interval;
  std::optional<WallTime> expires_at;
  std::string request_method;
  /// An object.
  Json variables;
  /// null until it is set.
  Json result;

  /// All of it as it is stored, what a newer writer added included; without what follows.
  Json record;
  std::uint64_t version = 0;
  /// Tells this task from another that had its id before, or gets it later. Opaque.
  std::string incarnation;
  /// The lock that guards it, and the highest fence seen.
  std::optional<FencingToken> bound_to;
};

/// Whose tasks a caller's are: its subject's, else its client's, else its session's, else nobody's in
/// particular (`local`). Empty counts as absent.
[[nodiscard]] HOLDFAST_EXPORT std::string owner_of(std::string_view subject, std::string_view client_id = {},
                                                   std::string_view session_id = {});

// The text in these needs to be valid only until the call returns that takes them. Write them in the call,
// `tasks.create("alice", {.method = name})`, in a co_await expression too. To keep one, keep its text as
// well.

/// What a task begins with.
struct NewTask {
  /// What was asked for, in the caller's words ("tools/call").
  std::string_view method = {};
  /// Empty: the store's default. Over the store's maximum: TtlTooLong.
  std::optional<std::chrono::milliseconds> ttl = std::nullopt;
  std::optional<std::chrono::milliseconds> poll_interval = std::nullopt;
  /// An object, or null for none.
  JsonView variables = {};
  /// Not empty: the same owner and key give the same task for as long as that lives, however often it is
  /// asked for; with another method, ttl, poll interval or variables it is RequestKeyConflict.
  std::string_view request_key = {};
};
template <>
struct detail::MembersOf<NewTask> {
  static auto of(auto& task) {
    auto& [method, ttl, poll_interval, variables, request_key] = task;
    return std::tie(method, ttl, poll_interval, variables, request_key);
  }
};

struct ListTasks {
  /// Empty for the first page, else the cursor of the page before. BadCursor if it is neither.
  std::string_view cursor = {};
  std::optional<TaskStatus> status = std::nullopt;
  /// Clamped to 1..1000.
  std::size_t limit = 50;
};
template <>
struct detail::MembersOf<ListTasks> {
  static auto of(auto& what) {
    auto& [cursor, status, limit] = what;
    return std::tie(cursor, status, limit);
  }
};

/// Whose tasks there are: for operators.
struct ListTaskOwners {
  /// Empty for the first page, else the cursor of the page before. Opaque; a foreign one is InvalidArgument.
  std::string_view cursor = {};
  /// Clamped to 1..1000.
  std::size_t limit = 100;
  BootTime deadline = never;
};
template <>
struct detail::MembersOf<ListTaskOwners> {
  static auto of(auto& what) {
    auto& [cursor, limit, deadline] = what;
    return std::tie(cursor, limit, deadline);
  }
};

struct TaskPage {
  /// Newest first. May be fewer than asked for though there are more: the cursor tells.
  std::vector<Task> tasks;
  std::string cursor;  ///< empty on the last page
  /// What is stored as a task and cannot be read, and why; `key()` is the task's id. It has a place in the
  /// list, and is named where that is, whatever the filter.
  std::vector<Error> unreadable = {};
};

/// Limits and rules of a store. A trivially destructible aggregate.
struct TaskOptions {
  /// Live tasks of one owner, finished ones included. Zero: no limit.
  std::size_t max_tasks_per_owner = 100;
  std::chrono::milliseconds default_ttl = std::chrono::hours(1);
  std::chrono::milliseconds max_ttl = std::chrono::hours(24);
  /// Of a task's variables together, as JSON without spaces and needless escapes.
  std::size_t max_variables_bytes = std::size_t{1024} * 1024;
  /// Containers inside containers, within one variable.
  std::size_t max_variable_depth = 10;
  std::size_t max_string_bytes = std::size_t{64} * 1024;
  std::chrono::milliseconds poll_interval = std::chrono::milliseconds(500);
  /// Whether the owner may be `local` or empty (which is the same).
  bool allow_anonymous = false;
  /// Refuse every change of a task that carries no fence; creating one needs none.
  bool require_fence = false;
};

}  // namespace holdfast
