#pragma once

#include <chrono>
#include <holdfast/storage_types.hpp>
#include <holdfast/task_types.hpp>
#include <memory>

namespace holdfast::tasks {

/// How long a task of a queue is kept that ends in this status. A failed one is a dead letter.
[[nodiscard]] constexpr std::chrono::milliseconds retention_of(const QueueTerms& terms,
                                                               TaskStatus status) noexcept {
  return status == TaskStatus::failed ? terms.failed_retention : terms.retention;
}

/// The state of a task that a write has ended in this status. A failed one is a dead letter.
[[nodiscard]] inline std::shared_ptr<const QueueState> state_after_end(const QueueState& before,
                                                                       TaskStatus status) {
  auto after = before;
  after.place = status == TaskStatus::failed ? QueuePlace::dead : QueuePlace::finished;
  after.lease_expires_at = {};
  return std::make_shared<const QueueState>(std::move(after));
}

}  // namespace holdfast::tasks
