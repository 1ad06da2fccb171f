#pragma once

#include <chrono>
#include <holdfast/storage_types.hpp>
#include <holdfast/task_types.hpp>

namespace holdfast::tasks {

/// How long a task of a queue is kept that ends in this status. A failed one is a dead letter.
[[nodiscard]] constexpr std::chrono::milliseconds retention_of(const QueueTerms& terms,
                                                               TaskStatus status) noexcept {
  return status == TaskStatus::failed ? terms.failed_retention : terms.retention;
}

}  // namespace holdfast::tasks
