#pragma once

#include <functional>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>

#include "runtime/flow.hpp"
#include "tasks/operations.hpp"

namespace holdfast::tasks {

struct WaitForTask {
  runtime::Flow flow;
  std::shared_ptr<StorageBackend> storage;
  RecordKey key;
  std::function<runtime::Op<Task>()> get;
  Until until;
  BootTime deadline = never;
  std::stop_token stop;
};

/// Reads the task with `get` until `until` accepts it; empty if the deadline comes first. Aborted on a stop
/// request. Transient errors of `get` are retried until the deadline or for a minute; other errors are
/// returned.
[[nodiscard]] runtime::Op<std::optional<Task>> wait_for_task(WaitForTask what);

}  // namespace holdfast::tasks
