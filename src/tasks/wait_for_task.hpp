#pragma once

#include <chrono>
#include <functional>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>

#include "runtime/flow.hpp"
#include "tasks/operations.hpp"
#include "tasks/store.hpp"

namespace holdfast::tasks {

/// How long a waiter sleeps before it reads its task again although no change woke it, if this many wait for
/// tasks of one store in this process. `random` is in [0, 1).
///
/// All waiters together read at most some 200 tasks a second: a thousand that each read every second would
/// delay the writes that end their waits. The jitter keeps waiters that began together from reading together.
[[nodiscard]] std::chrono::milliseconds look_again_after(std::size_t waiters, bool are_woken,
                                                         double random) noexcept;

struct WaitForTask {
  runtime::Flow flow;
  std::shared_ptr<TaskStore> store;
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
