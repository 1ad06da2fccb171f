#pragma once

#include <holdfast/task_types.hpp>
#include <optional>

#include "context.hpp"

namespace holdfast::cli {

/// `task list --all-owners`: everybody's tasks, those in that state if one is named, so many at most if a
/// number is. Holds a page of owners and one of tasks at a time. Returns the exit code.
[[nodiscard]] int list_all_tasks(const Context& context, std::optional<TaskStatus> status,
                                 std::optional<std::size_t> at_most);

}  // namespace holdfast::cli
