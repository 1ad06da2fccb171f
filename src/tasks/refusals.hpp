#pragma once

#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <string_view>

namespace holdfast::tasks {

// The outcomes of the storage contract that end an operation, as errors that say what to do. `what` names
// what was to be written: "the task 4f…".

[[nodiscard]] Error refusal(const StaleFence& stale, std::string_view what);
[[nodiscard]] Error refusal(const WrongLock& wrong, std::string_view what);
[[nodiscard]] Error no_such_task(std::string_view id);
[[nodiscard]] Error is_over(std::string_view id, TaskStatus status);

}  // namespace holdfast::tasks
