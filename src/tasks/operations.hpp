#pragma once

#include <functional>
#include <holdfast/claim.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

#include "flow/op.hpp"
#include "tasks/call.hpp"

namespace holdfast::tasks {

// What Tasks promises, operation by operation; see there. Arguments are as the caller gave them, unchecked.

[[nodiscard]] flow::Op<Task> create(Call call, std::string owner, detail::Owned<NewTask> task);
[[nodiscard]] flow::Op<Task> get(Call call, std::string owner, std::string id);
[[nodiscard]] flow::Op<TaskPage> list(Call call, std::string owner, detail::Owned<ListTasks> what);
[[nodiscard]] flow::Op<OwnerPage> owners(Call call, detail::Owned<ListTaskOwners> what);
[[nodiscard]] flow::Op<std::optional<Json>> get_result(Call call, std::string owner, std::string id);

[[nodiscard]] flow::Op<Task> update_status(Call call, std::string owner, std::string id, TaskStatus status,
                                           std::optional<std::string> message);
[[nodiscard]] flow::Op<Task> set_variables(Call call, std::string owner, std::string id, Json changes);
[[nodiscard]] flow::Op<Task> set_result(Call call, std::string owner, std::string id, Json result);
/// Result and final status in one write.
[[nodiscard]] flow::Op<Task> end_with_result(Call call, std::string owner, std::string id, TaskStatus status,
                                             Json result, std::optional<std::string> message);
[[nodiscard]] flow::Op<Task> cancel(Call call, std::string owner, std::string id,
                                    std::optional<std::string> message);
[[nodiscard]] flow::Op<bool> remove(Call call, std::string owner, std::string id);
[[nodiscard]] flow::Op<Task> bind(Call call, std::string owner, std::string id, FencingToken token);
[[nodiscard]] flow::Op<Task> rebind(Call call, std::string owner, std::string id,
                                    std::optional<FencingToken> token,
                                    std::optional<std::string> from_authority);
[[nodiscard]] flow::Op<std::size_t> cleanup_expired(Call call);
[[nodiscard]] flow::Op<Claim> claim(Call call, Locks locks, std::string owner, std::string id,
                                    LockOptions how);

/// What a wait waits for.
struct Until {
  std::function<bool(const Task&)> is_so;
  /// Then it does not run on a thread that others wait for.
  bool is_user_code = false;
};
[[nodiscard]] flow::Op<std::optional<Task>> wait(Call call, std::string owner, std::string id,
                                                 std::chrono::milliseconds timeout, Until until);

}  // namespace holdfast::tasks
