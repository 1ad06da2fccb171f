#pragma once

#include <holdfast/claim.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/task_operations.hpp>
#include <optional>

#include "runtime/op.hpp"
#include "tasks/call.hpp"

namespace holdfast::tasks {

// The operations of Tasks; see there for their contracts. Arguments are the caller's, unchecked.

[[nodiscard]] runtime::Op<Task> perform(Call call, operation::CreateTask what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::GetTask what);
[[nodiscard]] runtime::Op<TaskPage> perform(Call call, operation::ListTasksOfOwner what);
[[nodiscard]] runtime::Op<OwnerPage> perform(Call call, operation::ListOwnersOfTasks what);
[[nodiscard]] runtime::Op<std::optional<Json>> perform(Call call, operation::GetTaskResult what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::UpdateTaskStatus what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::SetTaskVariables what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::SetTaskResult what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::EndTask what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::CancelTask what);
[[nodiscard]] runtime::Op<bool> perform(Call call, operation::RemoveTask what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::BindTask what);
[[nodiscard]] runtime::Op<Task> perform(Call call, operation::RebindTask what);
[[nodiscard]] runtime::Op<std::unique_ptr<ChangeFeed>> perform(Call call, operation::FollowAllTasks what);
[[nodiscard]] runtime::Op<std::size_t> perform(Call call, operation::CleanUpTasks what);
[[nodiscard]] runtime::Op<OutputRun> perform(Call call, operation::AppendTaskOutput what);
[[nodiscard]] runtime::Op<KeptOutput> perform(Call call, operation::ReadTaskOutput what);
[[nodiscard]] runtime::Op<std::optional<Task>> perform(Call call, operation::AwaitTask what);
[[nodiscard]] runtime::Op<Claim> claim(Call call, Locks locks, operation::ClaimTask what);
[[nodiscard]] runtime::Op<std::optional<Claim>> try_claim(Call call, Locks locks,
                                                          operation::TryClaimOrdinaryTask what);
/// The same as `perform`, and asks these locks for ListTasks::unclaimed.
[[nodiscard]] runtime::Op<TaskPage> list(Call call, Locks locks, operation::ListTasksOfOwner what);
/// Whether these locks know who holds the lock of this token. A fence of another store says nothing here,
/// though a lock of its key may exist.
[[nodiscard]] bool is_lock_of(const FencingToken& token, const Locks& locks);

/// The condition of a wait.
struct Until {
  std::function<bool(const Task&)> is_so;
  /// If true, it does not run on a thread that others wait for.
  bool is_user_code = false;
};
[[nodiscard]] runtime::Op<std::optional<Task>> wait_until(Call call, std::string owner, std::string id,
                                                          std::chrono::milliseconds timeout, Until until);

}  // namespace holdfast::tasks
