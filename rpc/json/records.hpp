#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/lock_types.hpp>
#include <holdfast/queue_requests.hpp>
#include <holdfast/task_types.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace holdfast::rpc {

// Locks and tasks as JSON, the same for `rpc` and for the command line's --json.

/// The fields of SPEC's sanitised info; `fenceDigits` where a fence is stored with other than 15; `holder`
/// where the lock has a label.
[[nodiscard]] nlohmann::ordered_json to_json(const LockInfo& info);

/// The record as stored, then `version`, `incarnation` and `fence` (null, or an object of `fence`, `key`,
/// `authority`), and, for a task of a queue, `queue`: its name, place, attempts and worker.
[[nodiscard]] Json to_json(const Task& task);
/// The same, and `claim` if a worker holds the task: `worker`, `claimedAtMs`, `leaseExpiresAtMs`.
[[nodiscard]] Json to_json(const Task& task, const std::optional<LockInfo>& worker);

/// How long a lease is proven, as notifications say it: rounded down, so that no client stops too late.
[[nodiscard]] inline std::int64_t whole_milliseconds(std::chrono::nanoseconds remaining) noexcept {
  return std::chrono::floor<std::chrono::milliseconds>(remaining).count();
}

/// "delayed", "ready", "leased", "exhausted", "finished", "parked", "dead".
[[nodiscard]] std::string_view to_string(QueuePlace place) noexcept;
[[nodiscard]] nlohmann::ordered_json to_json(const QueueCounts& counts);

}  // namespace holdfast::rpc
