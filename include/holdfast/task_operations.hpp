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

/// The operations of Tasks as values, which own their arguments; see <holdfast/lock_operations.hpp>.
namespace holdfast::operation {

struct HOLDFAST_EXPORT CreateTask {
  using Answer = Task;
  std::string owner;
  detail::Owned<NewTask> task;
};

struct HOLDFAST_EXPORT GetTask {
  using Answer = Task;
  std::string owner, id;
};

struct HOLDFAST_EXPORT ListTasksOfOwner {
  using Answer = TaskPage;
  std::string owner;
  detail::Owned<ListTasks> what;
};

struct HOLDFAST_EXPORT ListOwnersOfTasks {
  using Answer = OwnerPage;
  detail::Owned<ListTaskOwners> what;
};

struct HOLDFAST_EXPORT GetTaskResult {
  using Answer = std::optional<Json>;
  std::string owner, id;
};

struct HOLDFAST_EXPORT UpdateTaskStatus {
  using Answer = Task;
  std::string owner, id;
  TaskStatus status{};
  std::optional<std::string> message = std::nullopt;
};

struct HOLDFAST_EXPORT SetTaskVariables {
  using Answer = Task;
  std::string owner, id;
  Json changes;
};

struct HOLDFAST_EXPORT SetTaskResult {
  using Answer = Task;
  std::string owner, id;
  Json result;
};

/// Result and final status in one write.
struct HOLDFAST_EXPORT EndTask {
  using Answer = Task;
  std::string owner, id;
  TaskStatus status{};
  Json result;
  std::optional<std::string> message = std::nullopt;
};

struct HOLDFAST_EXPORT CancelTask {
  using Answer = Task;
  std::string owner, id;
  std::optional<std::string> message = std::nullopt;
};

struct HOLDFAST_EXPORT RemoveTask {
  using Answer = bool;
  std::string owner, id;
};

struct HOLDFAST_EXPORT BindTask {
  using Answer = Task;
  std::string owner, id;
  FencingToken token;
};

struct HOLDFAST_EXPORT RebindTask {
  using Answer = Task;
  std::string owner, id;
  std::optional<FencingToken> token = std::nullopt;
  std::optional<std::string> from_authority = std::nullopt;
};

/// `until` runs on a thread of the library that may block, but not for long: there are few. What it throws is
/// Internal, unless it is an Error. Empty: until the task is final.
struct HOLDFAST_EXPORT AwaitTask {
  using Answer = std::optional<Task>;
  std::string owner, id;
  std::chrono::milliseconds timeout = no_time_limit;
  std::function<bool(const Task&)> until = {};
};

struct HOLDFAST_EXPORT ClaimTask {
  using Answer = Claim;
  std::string owner, id;
  LockOptions how = {};
};

struct HOLDFAST_EXPORT CleanUpTasks {
  using Answer = std::size_t;
};

}  // namespace holdfast::operation
