#include <exception>
#include <holdfast/tasks.hpp>
#include <tuple>

#include "locks/lock_store.hpp"
#include "tasks/address.hpp"
#include "tasks/operations.hpp"
#include "tasks/watched_tasks.hpp"

namespace holdfast {
namespace {

using runtime::Flow;
using runtime::Op;

template <class Operation>
Op<typename Operation::Answer> begin(tasks::Call call, const Locks&, Operation operation) {
  return perform(std::move(call), std::move(operation));
}
Op<Claim> begin(tasks::Call call, const Locks& locks, operation::ClaimTask operation) {
  return claim(std::move(call), locks, std::move(operation));
}
Op<std::optional<Claim>> begin(tasks::Call call, const Locks& locks,
                               operation::TryClaimOrdinaryTask operation) {
  return try_claim(std::move(call), locks, std::move(operation));
}
Op<TaskPage> begin(tasks::Call call, const Locks& locks, operation::ListTasksOfOwner operation) {
  return list(std::move(call), locks, std::move(operation));
}

}  // namespace

Tasks::Tasks(std::shared_ptr<StorageBackend> storage, Locks locks, const TaskOptions& options)
    : store_(std::make_shared<TaskStore>(std::move(storage), options, LockStore::of(locks)->observer,
                                         LockStore::of(locks)->threads)),
      locks_(std::move(locks)) {}

StorageBackend& Tasks::storage() const noexcept {
  return *store_->storage;
}

template <class Operation>
typename Operation::Answer Tasks::run(Operation operation, std::stop_token stop) const {
  return tasks::run(begin({.flow = Flow::blocking(),
                           .store = store_,
                           .stop = std::move(stop),
                           .fence = token_,
                           .incarnation = incarnation_},
                          locks_, std::move(operation)));
}

template <class Operation>
void Tasks::start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const {
  tasks::start(*store_->threads,
               begin({.flow = store_->completing(),
                      .store = store_,
                      .stop = std::move(stop),
                      .fence = token_,
                      .incarnation = incarnation_},
                     locks_, std::move(operation)),
               std::move(done));
}

/// Makes the compiler emit both forms of each operation.
template <class... Operations>
struct TaskOperations {
  static constexpr auto forms = std::tuple{&Tasks::run<Operations>..., &Tasks::start<Operations>...};
};
template struct TaskOperations<
    operation::CreateTask, operation::GetTask, operation::ListTasksOfOwner, operation::ListOwnersOfTasks,
    operation::GetTaskResult, operation::UpdateTaskStatus, operation::SetTaskVariables,
    operation::SetTaskResult, operation::EndTask, operation::CancelTask, operation::RemoveTask,
    operation::BindTask, operation::RebindTask, operation::AwaitTask, operation::ClaimTask,
    operation::TryClaimOrdinaryTask, operation::FollowAllTasks, operation::CleanUpTasks,
    operation::AppendTaskOutput, operation::ReadTaskOutput>;

std::optional<Task> Tasks::wait(std::string_view owner, std::string_view id,
                                std::chrono::milliseconds timeout, std::function<bool(const Task&)> until,
                                std::stop_token stop) const {
  operation::AwaitTask what{std::string(owner), std::string(id), timeout, {}};
  if (!until) return run(std::move(what), std::move(stop));
  // An exception of the user's function is passed on unchanged, although an Op carries only Errors.
  std::exception_ptr thrown;
  what.until = [&thrown, &until](const Task& task) {
    try {
      return until(task);
    } catch (...) {
      thrown = std::current_exception();
      return true;
    }
  };
  auto task = run(std::move(what), std::move(stop));
  if (thrown) std::rethrow_exception(thrown);
  return task;
}

TaskWatch Tasks::watch(std::string_view owner, std::string_view id) const {
  return WatchedTasks::watch(
      {.flow = Flow::blocking(), .store = store_, .stop = {}, .fence = token_, .incarnation = incarnation_},
      std::string(owner), std::string(id));
}

TaskWatch Tasks::watch(std::string_view owner) const {
  return WatchedTasks::watch(
      {.flow = Flow::blocking(), .store = store_, .stop = {}, .fence = {}, .incarnation = {}},
      std::string(owner), std::nullopt);
}

Tasks Tasks::with_fence(const Guard& guard) const {
  return with_fence(guard.token());
}

Tasks Tasks::with_fence(const FencingTokenView& token) const {
  Tasks fenced = *this;
  fenced.token_ = FencingToken(token);
  return fenced;
}

Tasks Tasks::with_incarnation(std::string_view incarnation) const {
  Tasks named = *this;
  named.incarnation_ = incarnation;
  return named;
}

std::optional<LockInfo> Tasks::worker(const Task& task, std::stop_token stop) const {
  if (is_final(task.status) || !task.bound_to || !tasks::is_lock_of(*task.bound_to, locks_)) {
    return std::nullopt;
  }
  return locks_.get_by_key(task.bound_to->lock_key, std::move(stop));
}

std::string Tasks::lock_key(std::string_view owner, std::string_view id) {
  const auto named = tasks::checked_owner(owner, true).value_or_throw();
  return tasks::lock_key_of(RecordKey::of(tasks::stored_owner(named), id).value_or_throw());
}

}  // namespace holdfast
