#pragma once

#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string_view>

namespace holdfast::tasks {

// Converts outcomes of the storage contract that end an operation to errors with advice. `what` names the
// record to be written: "the task 4f…".

[[nodiscard]] Error refusal(const FenceRefused& refused, std::string_view what);
/// Throws the error if the outcome is one of those two.
template <class Outcome>
void throw_if_refused(const Outcome& outcome, std::string_view what) {
  if (const auto* refused = std::get_if<FenceRefused>(&outcome)) throw refusal(*refused, what);
}

/// Whether the error means that the task has another worker, is final, or is gone: its worker should stop.
[[nodiscard]] bool ends_the_work(const Error& error) noexcept;

[[nodiscard]] Error no_such_task(std::string_view id);
/// For a task in a final state that was to move to `to`, or, without that, to be changed.
[[nodiscard]] Error is_over(std::string_view id, TaskStatus status, std::optional<TaskStatus> to = {});

}  // namespace holdfast::tasks
