#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/export.hpp>
#include <holdfast/json.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/storage_types.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// The status of a task. `working` and `input_required` can change into each other and into the other three,
/// which are final. No status changes to itself.
enum class TaskStatus : std::uint8_t {
  working,         ///< in progress, or waiting for a worker
  input_required,  ///< waiting for input of the requester
  completed,       ///< final: done
  failed,          ///< final: could not be done
  cancelled        ///< final: no longer wanted
};

/// Returns the name as it is stored: "working", "input_required", "completed", "failed", "cancelled". The
/// view is valid forever.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(TaskStatus status) noexcept;
/// Returns the status with this name; empty if there is none.
[[nodiscard]] HOLDFAST_EXPORT std::optional<TaskStatus> parse_task_status(std::string_view text) noexcept;
/// Returns true for completed, failed and cancelled: the status and data of such a task cannot be changed.
[[nodiscard]] HOLDFAST_EXPORT bool is_final(TaskStatus status) noexcept;
/// Returns true if a task may change from one status to the other.
[[nodiscard]] HOLDFAST_EXPORT bool may_become(TaskStatus from, TaskStatus to) noexcept;

/// A task as it was when it was read. Times are by the engine's clock.
struct Task {
  /// The id: a UUID if the task was created by Tasks.
  std::string id;
  /// The owner's name, as it was passed to Tasks::create. For a task of a queue: the reserved name under
  /// which the queue's tasks are stored; queue_of() returns the queue's name.
  std::string owner;
  /// The status.
  TaskStatus status = TaskStatus::working;
  /// The message of the last change of the status, if it had one.
  std::optional<std::string> status_message;
  /// When the task was created; the epoch if unknown.
  WallTime created_at = {};
  /// When the task was last changed; the epoch if unknown.
  WallTime last_updated_at = {};
  /// How long the task lives, from its creation; empty if the record has no ttl.
  std::optional<std::chrono::milliseconds> ttl;
  /// How often a client should poll the task: a hint for clients, which Tasks itself does not use.
  std::optional<std::chrono::milliseconds> poll_interval;
  /// When the task expires: from then on it is NotFound. Empty: never.
  std::optional<WallTime> expires_at;
  /// NewTask::method.
  std::string request_method;
  /// The variables, a JSON object, without spaces between its members.
  Json variables;
  /// The result as it was written; null until it is set.
  Json result;

  /// The whole record as it is stored, members that a newer writer added included. It does not contain the
  /// members below.
  Json record;
  /// 1 when created, and one more with each write of its data; bind and rebind do not change it.
  std::uint64_t version = 0;
  /// Distinguishes this task from another that had its id before, or gets it later. Opaque; see
  /// Tasks::with_incarnation.
  std::string incarnation;
  /// The lock that guards the task, with the highest fence seen; empty if no lock guards it.
  std::optional<FencingToken> bound_to;
  /// The task's state in its queue: place, attempts, worker; null if it is in none.
  std::shared_ptr<const QueueState> queue = nullptr;
  /// NewQueueTask::requester; empty if the task is in no queue, or was added without one.
  std::string requester = {};
  /// The failed task that this one retries (Queue::retry); empty if it retries none.
  std::string retry_of = {};
};

/// Returns the owner for a caller: its subject, else its client id, else its session id, else the anonymous
/// owner `local`. An empty argument counts as absent.
[[nodiscard]] HOLDFAST_EXPORT std::string owner_of(std::string_view subject, std::string_view client_id = {},
                                                   std::string_view session_id = {});

/// Returns the name of the task's queue; empty if the task is in none.
[[nodiscard]] HOLDFAST_EXPORT std::optional<std::string> queue_of(const Task& task);

// The text in the following structs needs to be valid only until the call that takes them returns. Write
// them in the call, `tasks.create("alice", {.method = name})`, in a co_await expression too. To keep one,
// keep its text as well.

/// The initial values of a task, for Tasks::create. The text and the JSON need to be valid only until the
/// call returns.
struct NewTask {
  /// What was requested, in the caller's words ("tools/call"): at most 1024 bytes of UTF-8 (InvalidArgument).
  std::string_view method = {};
  /// How long the task lives; empty: TaskOptions::default_ttl. Less than 1 ms: InvalidArgument. More than
  /// TaskOptions::max_ttl: TtlTooLong.
  std::optional<std::chrono::milliseconds> ttl = std::nullopt;
  /// How often a client should poll; empty: TaskOptions::poll_interval. Negative: InvalidArgument.
  std::optional<std::chrono::milliseconds> poll_interval = std::nullopt;
  /// The variables: a JSON object, or null for none. Members that are null are left out. Checked as in
  /// Tasks::set_variables.
  JsonView variables = {};
  /// Makes `create` repeatable: the same owner and key return the same task as long as it lives, however
  /// often it is requested. With another method, ttl, poll interval or variables: RequestKeyConflict. At most
  /// 512 bytes of UTF-8 (InvalidArgument). Empty: every call creates a new task.
  std::string_view request_key = {};
};
template <>
struct detail::MembersOf<NewTask> {
  static auto of(auto& task) {
    auto& [method, ttl, poll_interval, variables, request_key] = task;
    return std::tie(method, ttl, poll_interval, variables, request_key);
  }
};

/// Selects a page of an owner's tasks, for Tasks::list.
struct ListTasks {
  /// Empty for the first page, else TaskPage::cursor of the page before; otherwise BadCursor.
  std::string_view cursor = {};
  /// Only tasks with this status; empty: all.
  std::optional<TaskStatus> status = std::nullopt;
  /// The greatest number of tasks on the page; clamped to 1..1000.
  std::size_t limit = 50;
  /// Only tasks that were created at least this long ago, by the engine's clock. Zero: all. Costs nothing:
  /// younger tasks are not read.
  std::chrono::milliseconds older_than{};
  /// Oldest first; false: newest first. The same for all pages of a list.
  bool oldest_first = false;
  /// Only tasks with the status `working` that no worker has claimed. One more request to the engine for each
  /// task that was ever claimed; none for tasks of a queue. A task that is bound to a lock of another store
  /// is left out, because its worker cannot be known.
  bool unclaimed = false;
};
template <>
struct detail::MembersOf<ListTasks> {
  static auto of(auto& what) {
    auto& [cursor, status, limit, older_than, oldest_first, unclaimed] = what;
    return std::tie(cursor, status, limit, older_than, oldest_first, unclaimed);
  }
};

/// Selects a page of the owners that have tasks, for Tasks::owners.
struct ListTaskOwners {
  /// Empty for the first page, else OwnerPage::cursor of the page before. Opaque; a foreign cursor is
  /// InvalidArgument.
  std::string_view cursor = {};
  /// The greatest number of owners on the page; clamped to 1..1000.
  std::size_t limit = 100;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};
template <>
struct detail::MembersOf<ListTaskOwners> {
  static auto of(auto& what) {
    auto& [cursor, limit, deadline] = what;
    return std::tie(cursor, limit, deadline);
  }
};

/// One page of an owner's tasks.
struct TaskPage {
  /// In the order that was requested. It may have fewer tasks than requested although there are more: only
  /// the cursor shows that.
  std::vector<Task> tasks;
  /// The cursor of the next page; empty on the last one.
  std::string cursor;
  /// Stored tasks that cannot be read, and why; `key()` of each error is the task's id. Each has its place in
  /// the list and is reported on the page of that place, whatever the filter.
  std::vector<Error> unreadable = {};
};

/// Limits and rules of a Tasks object. They are checked by this object, not stored: every process should use
/// the same. A trivially destructible aggregate.
struct TaskOptions {
  /// Live tasks of one owner, finished ones included; beyond it, `create` fails with QuotaExceeded. Zero: no
  /// limit.
  std::size_t max_tasks_per_owner = 100;
  /// The ttl of a task that is created without one.
  std::chrono::milliseconds default_ttl = std::chrono::hours(1);
  /// The longest ttl; a longer one is TtlTooLong, not clamped.
  std::chrono::milliseconds max_ttl = std::chrono::hours(24);
  /// All variables of a task together, in bytes of JSON without spaces and needless escapes; beyond it,
  /// TooLarge.
  std::size_t max_variables_bytes = std::size_t{1024} * 1024;
  /// Nested containers within one variable; beyond it, TooDeep.
  std::size_t max_variable_depth = 10;
  /// One string in a variable, a variable's name, or a status message, in bytes; beyond it, TooLarge.
  std::size_t max_string_bytes = std::size_t{64} * 1024;
  /// The poll interval of a task that is created without one.
  std::chrono::milliseconds poll_interval = std::chrono::milliseconds(500);
  /// Whether the owner may be `local` or empty (which is the same); otherwise AnonymousOwner.
  bool allow_anonymous = false;
  /// Refuses every change of a task that carries no fence, with WrongLock; `cancel` is refused too, because
  /// it carries none. Creating a task needs no fence; `bind` and `rebind` are not affected.
  bool require_fence = false;
};

/// Checks one variable as Tasks::set_variables does, without the others: TooLarge or TooDeep. Returns how
/// many bytes of TaskOptions::max_variables_bytes it takes, beside 1 byte for all variables together. `name`
/// must be valid UTF-8.
[[nodiscard]] HOLDFAST_EXPORT Result<std::size_t> variable_bytes(std::string_view name, const Json& value,
                                                                 const TaskOptions& options);

/// Output of a command that works on a task, for Tasks::append_output and Queue::append_output. The text
/// needs to be valid only until the call returns.
struct NewOutput {
  /// The fence of the claim: Claim::token() or Job::token().
  FencingTokenView token;
  /// Task::incarnation of the claimed task; empty: any task with the id.
  std::string_view incarnation = {};
  /// Job::attempt(); 0 for a task that is in no queue.
  std::uint32_t attempt = 0;
  /// Any bytes, of stdout and stderr; at most 64 KiB together (InvalidArgument).
  std::string_view out = {}, err = {};  ///< see out
  /// The position of their first bytes in the streams. What was appended before is skipped, so that a call
  /// may be repeated; a position behind it drops what is kept.
  std::uint64_t out_at = 0, err_at = 0;  ///< see out_at
  /// How much of each stream is kept: its last bytes, at least so many, and up to 8 KiB more. 1 byte to 1
  /// MiB.
  std::size_t keep = std::size_t{64} * 1024;
  /// Whether this is the end of the output.
  bool is_complete = false;
};
template <>
struct detail::MembersOf<NewOutput> {
  static auto of(auto& output) {
    auto& [token, incarnation, attempt, out, err, out_at, err_at, keep, is_complete] = output;
    return std::tie(token, incarnation, attempt, out, err, out_at, err_at, keep, is_complete);
  }
};

/// Which part of a task's output to read, for Tasks::read_output and Queue::read_output.
struct OutputPart {
  /// OutputRun::number; 0: the newest run.
  std::uint64_t run = 0;
  /// The positions from which to read.
  std::uint64_t out_from = 0, err_from = 0;  ///< see out_from
};

}  // namespace holdfast
