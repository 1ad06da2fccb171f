#pragma once

#include <holdfast/lock_types.hpp>
#include <holdfast/task_types.hpp>
#include <optional>

#include "terminal/output.hpp"

namespace holdfast::cli {

/// All fields of a task, of a queue or not, for people. `worker`: the lock under which a worker works on it,
/// if that is known.
[[nodiscard]] Fields fields_of(const Task& task, const std::optional<LockInfo>& worker = {});

}  // namespace holdfast::cli
