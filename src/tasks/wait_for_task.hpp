#pragma once

#include <functional>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <stop_token>

namespace holdfast::tasks {

/// Reads the task, with `get`, until `until` says yes to it; nothing if the deadline comes first. Aborted on
/// a stop request. Transient errors of `get` are waited out, until the deadline or for a minute; what else it
/// throws goes on to the caller.
[[nodiscard]] std::optional<Task> wait_for_task(StorageBackend& storage, const RecordKey& key,
                                                const std::function<Task()>& get,
                                                const std::function<bool(const Task&)>& until,
                                                BootTime deadline, const std::stop_token& stop);

}  // namespace holdfast::tasks
