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
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace holdfast {

class TaskStore;

/// Durable tasks over one engine: their states, their limits, who may see them, and whose writes count. Cheap
/// to copy; copies share everything. All functions may be called from any thread. They block and throw
/// holdfast::Error; `start` is for those who must not block.
///
/// Another owner's task is NotFound. An owner that is empty means `local`, which is nobody in particular and
/// refused unless the options allow it. Every change is a compare-and-swap; one that loses the race to
/// another writer reads and decides again, a bounded number of times, unless that would undo what the other
/// did: then it is ConcurrentChange.
///
/// A NetworkTimeout or ServiceUnavailable from a change means that nobody knows whether it took effect.
class HOLDFAST_EXPORT Tasks {
 public:
  /// `locks` is what `claim` takes its locks from.
  Tasks(std::shared_ptr<StorageBackend> storage, Locks locks, const TaskOptions& options = {});

  [[nodiscard]] Task create(std::string_view owner, const NewTask& task = {},
                            std::stop_token stop = {}) const {
    return run(operation::CreateTask{std::string(owner), detail::owned(task)}, std::move(stop));
  }
  [[nodiscard]] Task get(std::string_view owner, std::string_view id, std::stop_token stop = {}) const {
    return run(operation::GetTask{std::string(owner), std::string(id)}, std::move(stop));
  }
  [[nodiscard]] TaskPage list(std::string_view owner, const ListTasks& what = {},
                              std::stop_token stop = {}) const {
    return run(operation::ListTasksOfOwner{std::string(owner), detail::owned(what)}, std::move(stop));
  }

  /// For operators: whose tasks there are, a page at a time, by the names that these functions take. A page
  /// may be empty though there are more: the cursor tells. See ListOwners.
  [[nodiscard]] OwnerPage owners(const ListTaskOwners& what = {}, std::stop_token stop = {}) const {
    return run(operation::ListOwnersOfTasks{detail::owned(what)}, std::move(stop));
  }

  /// Without a message the old one goes.
  Task update_status(std::string_view owner, std::string_view id, TaskStatus status,
                     std::optional<std::string_view> message = {}, std::stop_token stop = {}) const {
    return run(
        operation::UpdateTaskStatus{std::string(owner), std::string(id), status, detail::owned(message)},
        std::move(stop));
  }
  /// `changes` is an object: its members replace those of the same name, null deletes.
  Task set_variables(std::string_view owner, std::string_view id, JsonView changes,
                     std::stop_token stop = {}) const {
    return run(operation::SetTaskVariables{std::string(owner), std::string(id), detail::owned(changes)},
               std::move(stop));
  }
  /// Before the end. Two who set a result at once: ConcurrentChange for the second.
  Task set_result(std::string_view owner, std::string_view id, JsonView result,
                  std::stop_token stop = {}) const {
    return run(operation::SetTaskResult{std::string(owner), std::string(id), detail::owned(result)},
               std::move(stop));
  }
  /// Result and state in one write.
  Task complete_with_result(std::string_view owner, std::string_view id, JsonView result,
                            std::optional<std::string_view> message = {}, std::stop_token stop = {}) const {
    return run(operation::EndTask{std::string(owner), std::string(id), TaskStatus::completed,
                                  detail::owned(result), detail::owned(message)},
               std::move(stop));
  }
  Task fail(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
            std::stop_token stop = {}) const {
    return update_status(owner, id, TaskStatus::failed, message, std::move(stop));
  }
  /// Failed, with a result that says more; in one write.
  Task fail_with_result(std::string_view owner, std::string_view id, JsonView result,
                        std::optional<std::string_view> message = {}, std::stop_token stop = {}) const {
    return run(operation::EndTask{std::string(owner), std::string(id), TaskStatus::failed,
                                  detail::owned(result), detail::owned(message)},
               std::move(stop));
  }
  /// Never carries the fence: whoever asked for the task may call it off, whoever works on it.
  Task cancel(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
              std::stop_token stop = {}) const {
    return run(operation::CancelTask{std::string(owner), std::string(id), detail::owned(message)},
               std::move(stop));
  }
  /// False if it was not there.
  bool remove(std::string_view owner, std::string_view id, std::stop_token stop = {}) const {
    return run(operation::RemoveTask{std::string(owner), std::string(id)}, std::move(stop));
  }

  /// NotReady before the end. Nothing if it ended without a result.
  [[nodiscard]] std::optional<Json> get_result(std::string_view owner, std::string_view id,
                                               std::stop_token stop = {}) const {
    return run(operation::GetTaskResult{std::string(owner), std::string(id)}, std::move(stop));
  }

  /// Returns the task once `until` says yes to it; without one, once it is final. Nothing if `timeout` passes
  /// first. Woken by changes where the engine can; looks from time to time in any case.
  [[nodiscard]] std::optional<Task> wait(std::string_view owner, std::string_view id,
                                         std::chrono::milliseconds timeout = no_time_limit,
                                         std::function<bool(const Task&)> until = {},
                                         std::stop_token stop = {}) const;

  /// The same store, but every write carries this fence: refused as StaleFence once the record has seen a
  /// higher one, as WrongLock if another lock guards it.
  [[nodiscard]] Tasks with_fence(const Guard& guard) const;
  [[nodiscard]] Tasks with_fence(const FencingTokenView& token) const;
  [[nodiscard]] const std::optional<FencingToken>& token() const noexcept { return token_; }

  /// The same store, but every operation on one task means the one of this incarnation (`Task::incarnation`):
  /// if that is gone, and another task has its id, it is NotFound. For a writer that comes back later: ids
  /// that are made from request keys recur. `create`, `list`, `owners` and `rebind` pay no attention to it.
  /// An incarnation that was read from a record of other software does not last, and means whichever task is
  /// there.
  [[nodiscard]] Tasks with_incarnation(std::string_view incarnation) const;
  /// Empty: whichever task is there.
  [[nodiscard]] const std::string& incarnation() const noexcept { return incarnation_; }

  /// Binds the task to this lock, if it is bound to none, and raises its fence. Changes nothing else.
  Task bind(std::string_view owner, std::string_view id, const FencingTokenView& token,
            std::stop_token stop = {}) const {
    return run(operation::BindTask{std::string(owner), std::string(id), detail::owned(token)},
               std::move(stop));
  }
  /// For operators: the task is guarded by this lock from now on, or by none, whatever guarded it before.
  Task rebind(std::string_view owner, std::string_view id, const std::optional<FencingTokenView>& token,
              std::stop_token stop = {}) const {
    return run(operation::RebindTask{std::string(owner), std::string(id), detail::owned(token)},
               std::move(stop));
  }
  /// Does the same, but only if a lock of this authority guards the task, in one step. Otherwise the task
  /// stays, and is returned, as it is. For an authority that is gone (its store lost its data): a guard that
  /// was bound since is never replaced.
  Task rebind_from(std::string_view authority, std::string_view owner, std::string_view id,
                   const std::optional<FencingTokenView>& token, std::stop_token stop = {}) const {
    return run(operation::RebindTask{std::string(owner), std::string(id), detail::owned(token),
                                     std::string(authority)},
               std::move(stop));
  }

  /// Takes the task to work on it; see Claim. Waits for its lock as Locks::lock does. NotFound if it is not
  /// there, or was removed while its lock was waited for, though another has its id then; InvalidTransition
  /// if it is final, WrongLock if another lock than its own guards it.
  [[nodiscard]] Claim claim(std::string_view owner, std::string_view id, const LockOptions& how = {},
                            std::stop_token stop = {}) const {
    return run(operation::ClaimTask{std::string(owner), std::string(id), how}, std::move(stop));
  }
  /// The lock that belongs to a task.
  [[nodiscard]] static std::string lock_key(std::string_view owner, std::string_view id);

  /// Deletes what has expired, of all owners; how much that was. 0 where the engine does it by itself.
  std::size_t cleanup_expired(std::stop_token stop = {}) const {
    return run(operation::CleanUpTasks{}, std::move(stop));
  }

  /// Runs one of the operations above on this thread; see <holdfast/task_operations.hpp>.
  template <class Operation>
  typename Operation::Answer run(Operation operation, std::stop_token stop = {}) const;
  /// The same without blocking; see Locks::start.
  template <class Operation>
  void start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const;

  [[nodiscard]] StorageBackend& storage() const noexcept;
  [[nodiscard]] const Locks& locks() const noexcept { return locks_; }

 private:
  std::shared_ptr<TaskStore> store_;
  Locks locks_;
  std::optional<FencingToken> token_;
  std::string incarnation_;
};

}  // namespace holdfast
