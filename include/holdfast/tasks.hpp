#pragma once

#include <functional>
#include <holdfast/claim.hpp>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_operations.hpp>
#include <holdfast/task_types.hpp>
#include <holdfast/task_watch.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace holdfast {

class TaskStore;

/// Durable tasks in one store: their status, variables and results, their limits, who may see them, and whose
/// writes are accepted. Holdfast::tasks() returns one.
///
/// @code
/// auto hf = holdfast::open("sqlite:jobs.db");
/// auto tasks = hf.tasks();
/// const auto task = tasks.create("alice", {.method = "reports/make", .ttl = 10min});
/// auto claim = tasks.claim("alice", task.id);  // usually in another process
/// claim.complete(holdfast::Json::parse(R"({"pages": 7})").value_or_throw());
/// const auto result = tasks.get_result("alice", task.id);
/// @endcode
///
/// *Copies and threads.* Cheap to copy; copies share everything. All functions may be called from any thread.
/// They block and throw holdfast::Error; start() is for callers that must not block. Text and JSON arguments
/// need to be valid only until the call returns.
///
/// *Owners.* The task of another owner is NotFound. An empty owner means `local`, which is anonymous and
/// refused (AnonymousOwner) unless TaskOptions::allow_anonymous is set.
///
/// *Changes.* Every change is a compare-and-swap: one read and one conditional write, at least two requests
/// to the engine. If another writer changes the task in between, the change is read and decided again, up to
/// 50 times, then it fails with ConcurrentChange. It fails with ConcurrentChange at once if it would undo
/// what the other writer did.
///
/// *Errors.* Every function may throw the errors of the engine: the transient ServiceUnavailable,
/// NetworkTimeout and RateLimited, then AuthFailed, Aborted and Internal (also for a stored task that is not
/// valid). InvalidArgument is thrown for an owner or id that is not UTF-8 or too long (RecordKey::max_bytes
/// together), AnonymousOwner as above. A function that names a task may throw NotFound. A change may also
/// throw:
/// - InvalidTransition: the task is final, or already has the new status
/// - ConcurrentChange: see above
/// - StaleFence, WrongLock: see with_fence() and TaskOptions::require_fence
/// - TooLarge: the record would exceed RecordData::max_bytes, or the message TaskOptions::max_string_bytes
///
/// *Unknown outcome.* After NetworkTimeout or ServiceUnavailable from a change it is unknown whether the
/// change took effect.
///
/// *Cancellation.* A stop request ends a call with Aborted if the change was not sent to the engine: then
/// nothing was changed. On Redis a change that was already sent ends with NetworkTimeout: unknown.
///
/// *Fork.* In a forked child all operations fail with ServiceUnavailable.
class HOLDFAST_EXPORT Tasks {
 public:
  /// Creates a store over `storage`; claim() acquires its locks from `locks`. Usually Holdfast::tasks() does
  /// this. `storage` must not be null.
  Tasks(std::shared_ptr<StorageBackend> storage, Locks locks, const TaskOptions& options = {});

  /// Creates a task in the status `working` and returns it. With NewTask::request_key it returns the existing
  /// task if the same request was made before. One request to the engine; its cost does not depend on how
  /// many tasks the owner has. Through with_fence() the new task is bound to that lock.
  ///
  /// Throws QuotaExceeded, RequestKeyConflict, TtlTooLong, TooLarge, TooDeep and InvalidArgument, as
  /// described at NewTask and TaskOptions. After an unknown outcome, retry with the same request key.
  [[nodiscard]] Task create(std::string_view owner, const NewTask& task = {},
                            std::stop_token stop = {}) const {
    return run(operation::CreateTask{std::string(owner), detail::owned(task)}, std::move(stop));
  }
  /// Reads a task. One request to the engine.
  [[nodiscard]] Task get(std::string_view owner, std::string_view id, std::stop_token stop = {}) const {
    return run(operation::GetTask{std::string(owner), std::string(id)}, std::move(stop));
  }
  /// Lists an owner's tasks, one page at a time, newest first unless ListTasks::oldest_first is set. Throws
  /// BadCursor. A filter by status may need several requests to the engine.
  ///
  /// @code
  /// std::string cursor;
  /// do {
  ///   const auto page = tasks.list("alice", {.cursor = cursor, .limit = 20});
  ///   // ... page.tasks ...
  ///   cursor = page.cursor;
  /// } while (!cursor.empty());
  /// @endcode
  [[nodiscard]] TaskPage list(std::string_view owner, const ListTasks& what = {},
                              std::stop_token stop = {}) const {
    return run(operation::ListTasksOfOwner{std::string(owner), detail::owned(what)}, std::move(stop));
  }

  /// Lists the owners that have tasks, one page at a time, by the names that these functions take; for
  /// operators. A page may be empty although there are more: only the cursor shows that. See ListOwners.
  [[nodiscard]] OwnerPage owners(const ListTaskOwners& what = {}, std::stop_token stop = {}) const {
    return run(operation::ListOwnersOfTasks{detail::owned(what)}, std::move(stop));
  }

  /// Changes the status and returns the task. Without a message the old one is removed.
  Task update_status(std::string_view owner, std::string_view id, TaskStatus status,
                     std::optional<std::string_view> message = {}, std::stop_token stop = {}) const {
    return run(
        operation::UpdateTaskStatus{std::string(owner), std::string(id), status, detail::owned(message)},
        std::move(stop));
  }
  /// Merges `changes`, a JSON object, into the variables and returns the task: its members replace those of
  /// the same name, null deletes. Throws InvalidTransition for a final task, TooLarge and TooDeep beyond the
  /// limits of TaskOptions, InvalidArgument if `changes` is not an object.
  Task set_variables(std::string_view owner, std::string_view id, JsonView changes,
                     std::stop_token stop = {}) const {
    return run(operation::SetTaskVariables{std::string(owner), std::string(id), detail::owned(changes)},
               std::move(stop));
  }
  /// Sets the result of a task that is not final, without changing its status, and returns the task. If two
  /// writers set a result at the same time, the second gets ConcurrentChange. Throws TooDeep for a result
  /// with more than 100 nested containers.
  Task set_result(std::string_view owner, std::string_view id, JsonView result,
                  std::stop_token stop = {}) const {
    return run(operation::SetTaskResult{std::string(owner), std::string(id), detail::owned(result)},
               std::move(stop));
  }
  /// Marks the task completed and sets its result, in one write; returns the task. Throws TooDeep as
  /// set_result().
  Task complete_with_result(std::string_view owner, std::string_view id, JsonView result,
                            std::optional<std::string_view> message = {}, std::stop_token stop = {}) const {
    return run(operation::EndTask{std::string(owner), std::string(id), TaskStatus::completed,
                                  detail::owned(result), detail::owned(message)},
               std::move(stop));
  }
  /// Marks the task failed and returns it.
  Task fail(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
            std::stop_token stop = {}) const {
    return update_status(owner, id, TaskStatus::failed, message, std::move(stop));
  }
  /// Marks the task failed and sets a result that describes the failure, in one write; returns the task.
  /// Throws TooDeep as set_result().
  Task fail_with_result(std::string_view owner, std::string_view id, JsonView result,
                        std::optional<std::string_view> message = {}, std::stop_token stop = {}) const {
    return run(operation::EndTask{std::string(owner), std::string(id), TaskStatus::failed,
                                  detail::owned(result), detail::owned(message)},
               std::move(stop));
  }
  /// Marks the task cancelled and returns it. It never carries the fence: a client may cancel its task while
  /// any worker holds it. Throws WrongLock if TaskOptions::require_fence is set.
  Task cancel(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
              std::stop_token stop = {}) const {
    return run(operation::CancelTask{std::string(owner), std::string(id), detail::owned(message)},
               std::move(stop));
  }
  /// Removes the task, in any status. Returns false if it did not exist. A task that cannot be read is
  /// removed too.
  bool remove(std::string_view owner, std::string_view id, std::stop_token stop = {}) const {
    return run(operation::RemoveTask{std::string(owner), std::string(id)}, std::move(stop));
  }

  /// Returns the result of a final task; empty if it has none. Throws NotReady if the task is not final. One
  /// request to the engine.
  [[nodiscard]] std::optional<Json> get_result(std::string_view owner, std::string_view id,
                                               std::stop_token stop = {}) const {
    return run(operation::GetTaskResult{std::string(owner), std::string(id)}, std::move(stop));
  }

  /// Waits until `until` returns true for the task and returns the task; without `until`, until the task is
  /// final. Returns empty after `timeout`; the task is read at least once. `until` runs on the calling
  /// thread; what it throws is passed on.
  ///
  /// It is woken by changes if the engine can wake it, and polls in any case: every second then, otherwise
  /// every 200 ms. If more than 200 waits and claims of this process poll, they take turns: each polls every
  /// 5 ms times their number, at most every 30 s. Transient errors of the engine are waited out for up to a
  /// minute, then thrown. Throws NotFound if the task is removed or expires, Aborted after a stop request.
  [[nodiscard]] std::optional<Task> wait(std::string_view owner, std::string_view id,
                                         std::chrono::milliseconds timeout = no_time_limit,
                                         std::function<bool(const Task&)> until = {},
                                         std::stop_token stop = {}) const;

  /// Returns a Tasks object of the same store whose writes carry the fence of this guard; `cancel` excepted.
  /// The first such write binds the task to the guard's lock. From then on the task refuses a fence lower
  /// than the highest it has seen (StaleFence) and the fence of another lock (WrongLock). The fence is
  /// copied: the guard may end, and later writes are then refused once another holder has written. Throws
  /// InvalidArgument if the guard is empty.
  [[nodiscard]] Tasks with_fence(const Guard& guard) const;
  /// Does the same with a fence that was kept, for example by another process. Keep Task::incarnation too;
  /// see with_incarnation().
  [[nodiscard]] Tasks with_fence(const FencingTokenView& token) const;
  /// Returns the fence that writes carry; empty without with_fence().
  [[nodiscard]] const std::optional<FencingToken>& token() const noexcept { return token_; }

  /// Returns a Tasks object of the same store whose operations on one task mean the task of this incarnation
  /// (Task::incarnation). If that task is gone, and another task has its id, the operation fails with
  /// NotFound (remove() returns false). For a writer that comes back later: ids that are made from request
  /// keys recur. `create`, `list`, `owners` and `rebind` ignore it. An incarnation that was read from a
  /// record of other software is not permanent, and means any task with the id.
  [[nodiscard]] Tasks with_incarnation(std::string_view incarnation) const;
  /// Returns the incarnation that operations mean; empty: any task with the id.
  [[nodiscard]] const std::string& incarnation() const noexcept { return incarnation_; }

  /// Binds the task to this lock if it is bound to none, raises its fence, and returns it. Changes nothing
  /// else. Writes with a lower fence are refused from then on. Throws StaleFence and WrongLock. One atomic
  /// request to the engine.
  Task bind(std::string_view owner, std::string_view id, const FencingTokenView& token,
            std::stop_token stop = {}) const {
    return run(operation::BindTask{std::string(owner), std::string(id), detail::owned(token)},
               std::move(stop));
  }
  /// Binds the task to this lock, or to none, whatever lock guarded it before, and returns it; for operators.
  Task rebind(std::string_view owner, std::string_view id, const std::optional<FencingTokenView>& token,
              std::stop_token stop = {}) const {
    return run(operation::RebindTask{std::string(owner), std::string(id), detail::owned(token)},
               std::move(stop));
  }
  /// Does the same, but only if a lock of this authority guards the task, in one atomic step. Otherwise the
  /// task stays, and is returned, as it is. For an authority that is gone (its store lost its data): a lock
  /// that was bound since then is never replaced.
  Task rebind_from(std::string_view authority, std::string_view owner, std::string_view id,
                   const std::optional<FencingTokenView>& token, std::stop_token stop = {}) const {
    return run(operation::RebindTask{std::string(owner), std::string(id), detail::owned(token),
                                     std::string(authority)},
               std::move(stop));
  }

  /// Claims the task to work on it: acquires its lock, waiting as Locks::lock does, and binds the task to it;
  /// see Claim. Three requests to the engine if the lock is free.
  ///
  /// Throws the errors of Locks::lock (AcquisitionTimeout if another worker has it all the time); NotFound if
  /// the task does not exist, or was removed while this call waited for the lock, even if another task has
  /// its id then; InvalidTransition if it is final; WrongLock if another lock than its own guards it. If it
  /// throws after the lock was granted, the lock is released.
  [[nodiscard]] Claim claim(std::string_view owner, std::string_view id, const LockOptions& how = {},
                            std::stop_token stop = {}) const {
    return run(operation::ClaimTask{std::string(owner), std::string(id), how}, std::move(stop));
  }
  /// Claims the task as claim() does, without waiting. Returns empty if another worker has it.
  [[nodiscard]] std::optional<Claim> try_claim(std::string_view owner, std::string_view id,
                                               const LockOptions& how = {}, std::stop_token stop = {}) const {
    return run(operation::TryClaimOrdinaryTask{std::string(owner), std::string(id), how}, std::move(stop));
  }
  /// Returns the lock under which a worker works on this task at this moment: who (LockInfo::holder) and
  /// since when. Empty if no worker holds it, and if it is bound to a lock of another store. One request to
  /// the engine, none for a task that is final or was never claimed. For a task of a queue see Task::queue.
  [[nodiscard]] std::optional<LockInfo> worker(const Task& task, std::stop_token stop = {}) const;
  /// Returns the key of the lock that belongs to a task, which claim() acquires. No I/O. Throws
  /// InvalidArgument for an invalid owner or id.
  [[nodiscard]] static std::string lock_key(std::string_view owner, std::string_view id);

  /// Follows one task: see TaskWatch. No I/O until TaskWatch::next.
  [[nodiscard]] TaskWatch watch(std::string_view owner, std::string_view id) const;
  /// Follows all tasks of an owner.
  [[nodiscard]] TaskWatch watch(std::string_view owner) const;

  /// Appends to the output of the command that works on the task, and returns what is kept of it. It is kept
  /// beside the task, expires and is removed with it, and may be appended to after the task has ended. Each
  /// fence is a run of its own; the output of the newest five runs is kept. Throws StaleFence and WrongLock
  /// as a write does. One request to the engine.
  OutputRun append_output(std::string_view owner, std::string_view id, const NewOutput& what,
                          std::stop_token stop = {}) const {
    return run(operation::AppendTaskOutput{std::string(owner), std::string(id), detail::owned(what)},
               std::move(stop));
  }
  /// Reads the output of a run, at most 256 KiB of each stream. One request to the engine.
  [[nodiscard]] KeptOutput read_output(std::string_view owner, std::string_view id,
                                       const OutputPart& part = {}, std::stop_token stop = {}) const {
    return run(operation::ReadTaskOutput{std::string(owner), std::string(id), part}, std::move(stop));
  }

  /// Returns a feed of the changes of all owners' tasks, for views; null if the engine cannot follow changes.
  /// The key of a change is `owner:id`, with `%3A` and `%25` for a colon and a percent sign in the owner.
  [[nodiscard]] std::unique_ptr<ChangeFeed> follow(std::stop_token stop = {}) const {
    return run(operation::FollowAllTasks{}, std::move(stop));
  }
  /// Deletes the expired tasks of all owners and returns their number; 0 if the engine deletes them
  /// automatically. Expired tasks are NotFound with or without it.
  std::size_t cleanup_expired(std::stop_token stop = {}) const {
    return run(operation::CleanUpTasks{}, std::move(stop));
  }

  /// Runs one of the operations above on this thread; see <holdfast/task_operations.hpp>.
  template <class Operation>
  typename Operation::Answer run(Operation operation, std::stop_token stop = {}) const;
  /// Starts one of the operations above without blocking. `done` is completed exactly once with what run()
  /// returns or throws; see Locks::start.
  template <class Operation>
  void start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const;

  /// Returns the engine of the tasks. Valid as long as a copy of this object.
  [[nodiscard]] StorageBackend& storage() const noexcept;
  /// Returns the locks that claim() uses.
  [[nodiscard]] const Locks& locks() const noexcept { return locks_; }

 private:
  std::shared_ptr<TaskStore> store_;
  Locks locks_;
  std::optional<FencingToken> token_;
  std::string incarnation_;
};

}  // namespace holdfast
