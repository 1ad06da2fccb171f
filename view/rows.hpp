#pragma once

#include <holdfast/lock_types.hpp>
#include <holdfast/queue_requests.hpp>
#include <holdfast/task_types.hpp>
#include <string>
#include <string_view>

#include "view/snapshot.hpp"

namespace holdfast::view {

/// Returns the row of a lock, without the lock id.
[[nodiscard]] LockRow row_of(const LockRecord& record);
/// Returns the row of a lock that was read by its key.
[[nodiscard]] LockRow row_of(std::string_view key, const LockInfo& info);
/// Returns the row of a task. `has_worker` and `worker` are not set.
[[nodiscard]] TaskRow row_of(const Task& task);
/// Returns the row of a queue.
[[nodiscard]] QueueRow row_of(std::string_view name, const QueueCounts& counts);
/// Cuts a UTF-8 text after the last character that fits into `bytes`.
[[nodiscard]] std::string clipped(std::string_view text, std::size_t bytes = TaskRow::max_text);

}  // namespace holdfast::view
