#pragma once

#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

#include "runtime/op.hpp"
#include "tasks/call.hpp"

namespace holdfast::tasks {

/// Why a task of a queue has to be failed: it has no attempt left, or is too old. Empty if it has not, or is
/// in no queue.
[[nodiscard]] std::optional<std::string> why_exhausted(const Task& task, WallTime now);

/// Whether the worker of the task's last attempt seems to have died: its lease has expired, and no other
/// claim may find that out.
[[nodiscard]] bool may_have_died(const Task& task, WallTime now);

/// Fails a task that has to be failed, by an ordinary write, and returns it as it is then. A task that
/// another client ended or changed meanwhile, and one that cannot be written, is returned as it is known: the
/// next reader or claim tries again.
[[nodiscard]] runtime::Op<Task> end_exhausted(Call call, Task task);

/// What a reader does with a task of a queue that it has read: if its last worker may have died, lets the
/// engine decide about the lease; then end_exhausted(). A call with a fence is a worker's own: its lease is
/// left alone, for its late outcome may still be accepted.
[[nodiscard]] runtime::Op<Task> settle(Call call, Task task);

}  // namespace holdfast::tasks
