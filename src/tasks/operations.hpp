#pragma once

#include <holdfast/claim.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/task_operations.hpp>
#include <optional>

#include "runtime/op.hpp"
#include "tasks/call.hpp"

namespace holdfast::tasks {

// What Tasks promises, operation by operation; see there. Arguments are as the caller gave them, unchecked.

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
[[nodiscard]] runtime::Op<std::size_t> perform(Call call, operation::CleanUpTasks what);
[[nodiscard]] runtime::Op<std::optional<Task>> perform(Call call, operation::AwaitTask what);
[[nodiscard]] runtime::Op<Claim> claim(Call call, Locks locks, operation::ClaimTask what);

/// What a wait waits for.
struct Until {
  std::function<bool(const Task&)> is_so;
  /// Then it does not run on a thread that others wait for.
  bool is_user_code = false;
};
[[nodiscard]] runtime::Op<std::optional<Task>> wait_until(Call call, std::string owner, std::string id,
                                                          std::chrono::milliseconds timeout, Until until);

}  // namespace holdfast::tasks
