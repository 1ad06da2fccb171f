#pragma once

#include <chrono>
#include <functional>
#include <holdfast/claim.hpp>
#include <holdfast/export.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

/// The operations of Tasks as values, which own their arguments. Tasks::run blocks until one is done,
/// Tasks::start completes a callback, and the adapters for event loops are templates over them; see
/// <holdfast/locks.hpp>. `Answer` is the result type. The functions of Tasks describe what each
/// operation does and which errors it gives.
namespace holdfast::operation {

/// The operation of Tasks::create.
struct HOLDFAST_EXPORT CreateTask {
  /// The task.
  using Answer = Task;
  /// Owner of the task; empty: `local`.
  std::string owner;
  /// The initial values: a copy of a NewTask.
  detail::Owned<NewTask> task;
};

/// The operation of Tasks::get.
struct HOLDFAST_EXPORT GetTask {
  /// The task.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
};

/// The operation of Tasks::list.
struct HOLDFAST_EXPORT ListTasksOfOwner {
  /// The page.
  using Answer = TaskPage;
  /// Owner of the tasks; empty: `local`.
  std::string owner;
  /// Which page: a copy of a ListTasks.
  detail::Owned<ListTasks> what;
};

/// The operation of Tasks::owners.
struct HOLDFAST_EXPORT ListOwnersOfTasks {
  /// The page.
  using Answer = OwnerPage;
  /// Which page: a copy of a ListTaskOwners.
  detail::Owned<ListTaskOwners> what;
};

/// The operation of Tasks::get_result.
struct HOLDFAST_EXPORT GetTaskResult {
  /// The result; empty if the task has none.
  using Answer = std::optional<Json>;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
};

/// The operation of Tasks::update_status and Tasks::fail.
struct HOLDFAST_EXPORT UpdateTaskStatus {
  /// The task after the change.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// The new status.
  TaskStatus status{};
  /// The new status message; empty: the old one is removed.
  std::optional<std::string> message = std::nullopt;
};

/// The operation of Tasks::set_variables.
struct HOLDFAST_EXPORT SetTaskVariables {
  /// The task after the change.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// An object; a member that is null deletes the variable.
  Json changes;
};

/// The operation of Tasks::set_result.
struct HOLDFAST_EXPORT SetTaskResult {
  /// The task after the change.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// The result.
  Json result;
};

/// The operation of Tasks::complete_with_result and Tasks::fail_with_result: sets result and status in one
/// write.
struct HOLDFAST_EXPORT EndTask {
  /// The task after the change.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// The new status, usually completed or failed.
  TaskStatus status{};
  /// The result.
  Json result;
  /// The new status message; empty: the old one is removed.
  std::optional<std::string> message = std::nullopt;
};

/// The operation of Tasks::cancel.
struct HOLDFAST_EXPORT CancelTask {
  /// The task after the change.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// The new status message; empty: the old one is removed.
  std::optional<std::string> message = std::nullopt;
};

/// The operation of Tasks::remove.
struct HOLDFAST_EXPORT RemoveTask {
  /// False if the task did not exist.
  using Answer = bool;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// Task::incarnation of the task that is meant: another task of this id is not removed, as if there were
  /// none. Empty: the one that is there.
  std::string incarnation = {};
};

/// The operation of Tasks::bind.
struct HOLDFAST_EXPORT BindTask {
  /// The task, with its new binding.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// The lock to bind the task to, and its fence.
  FencingToken token;
};

/// The operation of Tasks::rebind, and of Tasks::rebind_from if `from_authority` is set.
struct HOLDFAST_EXPORT RebindTask {
  /// The task after the operation.
  using Answer = Task;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// The new lock and its fence; empty: none.
  std::optional<FencingToken> token = std::nullopt;
  /// Rebind only if a lock of this authority guards the task; empty: in any case.
  std::optional<std::string> from_authority = std::nullopt;
};

/// The operation of Tasks::wait. With Tasks::start, `until` runs on a thread of the library that may block,
/// but not for long, because there are few of them; with Tasks::run, on the calling thread. If it throws an
/// Error, the operation fails with that Error; any other exception is Internal.
struct HOLDFAST_EXPORT AwaitTask {
  /// The task; empty after the timeout.
  using Answer = std::optional<Task>;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// How long to wait; no_time_limit: forever.
  std::chrono::milliseconds timeout = no_time_limit;
  /// Ends the wait when it returns true. Empty: the wait ends when the task is final.
  std::function<bool(const Task&)> until = {};
};

/// The operation of Tasks::claim.
struct HOLDFAST_EXPORT ClaimTask {
  /// The claim.
  using Answer = Claim;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// How to wait for the task's lock and how to hold it: a copy of a LockOptions.
  detail::Owned<LockOptions> how = {};
};

/// The operation of Tasks::try_claim.
struct HOLDFAST_EXPORT TryClaimOrdinaryTask {
  /// The claim; empty if another worker has the task.
  using Answer = std::optional<Claim>;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// How to hold the task's lock: a copy of a LockOptions; `wait` and `retries` are not used.
  detail::Owned<LockOptions> how = {};
};

/// The operation of Tasks::append_output and Queue::append_output.
struct HOLDFAST_EXPORT AppendTaskOutput {
  /// The run after it: what is kept.
  using Answer = OutputRun;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// What to append: a copy of a NewOutput.
  detail::Owned<NewOutput> what;
};

/// The operation of Tasks::read_output and Queue::read_output.
struct HOLDFAST_EXPORT ReadTaskOutput {
  /// The output.
  using Answer = KeptOutput;
  std::string owner,  ///< owner of the task; empty: `local`
      id;             ///< id of the task
  /// Which part of it.
  OutputPart part = {};
};

/// The operation of Tasks::follow.
struct HOLDFAST_EXPORT FollowAllTasks {
  /// Null if the engine cannot follow changes.
  using Answer = std::unique_ptr<ChangeFeed>;
};

/// The operation of Tasks::cleanup_expired.
struct HOLDFAST_EXPORT CleanUpTasks {
  /// How many tasks were deleted.
  using Answer = std::size_t;
};

}  // namespace holdfast::operation
