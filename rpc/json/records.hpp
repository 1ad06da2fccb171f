#pragma once

#include <holdfast/lock_types.hpp>
#include <holdfast/task_types.hpp>
#include <nlohmann/json_fwd.hpp>

namespace holdfast::rpc {

// Locks and tasks as JSON, the same for `rpc` and for the command line's --json.

/// The fields of SPEC's sanitised info; `fenceDigits` where a fence is stored with other than 15; `holder`
/// where the lock has a label.
[[nodiscard]] nlohmann::ordered_json to_json(const LockInfo& info);

/// The record as stored, then `version`, `incarnation` and `fence` (null, or an object of `fence`, `key`,
/// `authority`).
[[nodiscard]] Json to_json(const Task& task);

}  // namespace holdfast::rpc
