#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The state of a record in its queue is one field of its hash, `queue`: each further field would cost server
/// time. It is text, because pmcp-tasks reads all fields of the hash as UTF-8. Numbers are decimal digits
/// with leading zeros, at fixed places, so that scripts can cut them out; times are milliseconds since the
/// epoch, 0 for none.
///
///   at   characters   meaning
///   0    1            QueuePlace
///   1    10           deaths
///   11   16           due_at
///   27   16           sequence: the place among the ready ones of its priority; 0: it had none yet
///   43   16, 16       claimed_at, lease_expires_at
///   75   10           attempts
///   85   16           fails_at
///   101  16           the highest fence of its claims
///   117  6, 10, 20    terms: priority (with its sign), max_attempts, attempt_limit
///   153  1            1: the task's lock key is in the field `queue_lock`; 2: there is a limit key; 3: both
///   154  4            where the worker begins, counted from 1
///   158  10, 5, size  limit, and bytes and text of limit_key; only if there is one
///        4 numbers    max_age, retention, not_before (the lowest number for none), failed_retention, with a
///                     space behind each and no leading zeros
///        the rest     worker
///
/// From the priority on, scripts carry the text along (parts/queue_pack.lua).
///
/// Earlier builds stored the same as bytes, in another order, of which the first is below '0'. Such a state
/// is read, and becomes text with the first change (parts/queue_binary.lua).

/// The terms as a script gets them: from the priority up to the worker.
[[nodiscard]] std::string terms_text(const QueueTerms& terms, bool has_own_lock_key);

/// Empty if the field is not as scripts write it.
[[nodiscard]] std::optional<QueueState> queue_state_of(std::string_view field);

/// The greatest number that scripts compute with exactly. Later times are stored as this one.
inline constexpr std::int64_t latest_ms = (std::int64_t{1} << 53) - 1;

}  // namespace holdfast::redis
