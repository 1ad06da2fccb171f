#pragma once

#include <chrono>
#include <functional>
#include <holdfast/claim.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

/// The operations of Tasks as values, which own their arguments; see <holdfast/lock_operations.hpp>.
namespace holdfast::operation {

struct CreateTask {
  using Answer = Task;
  std::string owner;
  detail::Owned<NewTask> task;
};

struct GetTask {
  using Answer = Task;
  std::string owner, id;
};

struct ListTasksOfOwner {
  using Answer = TaskPage;
  std::string owner;
  detail::Owned<ListTasks> what;
};

struct ListOwnersOfTasks {
  using Answer = OwnerPage;
  detail::Owned<ListTaskOwners> what;
};

struct GetTaskResult {
  using Answer = std::optional<Json>;
  std::string owner, id;
};

struct UpdateTaskStatus {
  using Answer = Task;
  std::string owner, id;
  TaskStatus status{};
  std::optional<std::string> message = std::nullopt;
};

struct SetTaskVariables {
  using Answer = Task;
  std::string owner, id;
  Json changes;
};

struct SetTaskResult {
  using Answer = Task;
  std::string owner, id;
  Json result;
};

/// Result and final status in one write.
struct EndTask {
  using Answer = Task;
  std::string owner, id;
  TaskStatus status{};
  Json result;
  std::optional<std::string> message = std::nullopt;
};

struct CancelTask {
  using Answer = Task;
  std::string owner, id;
  std::optional<std::string> message = std::nullopt;
};

struct RemoveTask {
  using Answer = bool;
  std::string owner, id;
};

struct BindTask {
  using Answer = Task;
  std::string owner, id;
  FencingToken token;
};

struct RebindTask {
  using Answer = Task;
  std::string owner, id;
  std::optional<FencingToken> token = std::nullopt;
  std::optional<std::string> from_authority = std::nullopt;
};

/// `until` runs on a thread of the library that may block, but not for long: there are few. What it throws is
/// Internal, unless it is an Error. Empty: until the task is final.
struct AwaitTask {
  using Answer = std::optional<Task>;
  std::string owner, id;
  std::chrono::milliseconds timeout = no_time_limit;
  std::function<bool(const Task&)> until = {};
};

struct ClaimTask {
  using Answer = Claim;
  std::string owner, id;
  LockOptions how = {};
};

struct CleanUpTasks {
  using Answer = std::size_t;
};

}  // namespace holdfast::operation
