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

/// Fails such a task, by an ordinary write, and returns it as it is then. A task that another client ended or
/// changed meanwhile, and one that cannot be written, is returned as it is known: the next reader or claim
/// tries again.
[[nodiscard]] runtime::Op<Task> end_exhausted(Call call, Task task);

}  // namespace holdfast::tasks
