#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The state of a record in its queue is one field of its hash, `queue`: each further field would cost server
/// time. Numbers are big-endian; times are milliseconds since the epoch, 0 for none.
///
///   bytes             meaning
///   1                 QueuePlace
///   4, 4              attempts, deaths
///   7, 7              due_at, fails_at
///   7                 sequence: the place among the ready ones of its priority; 0: it had none yet
///   7, 7              claimed_at, lease_expires_at
///   7                 the highest fence of its claims
///   2, 4              terms: priority (signed), max_attempts
///   8, 8, 8, 8        attempt_limit, max_age, retention, not_before (the lowest number for none), all signed
///   1                 1: the task's lock key is in the field `queue_lock`; 2: there is a limit key; 3: both
///   8                 failed_retention, signed
///   4, 2, the length  limit, and length and text of limit_key; only if there is one
///   the rest          worker
///
/// From the priority on, scripts carry the bytes along (parts/queue_pack.lua).

/// The terms as a script gets them: from the priority up to the worker.
[[nodiscard]] std::string packed_terms(const QueueTerms& terms, bool has_own_lock_key);

/// Empty if the field is not as scripts write it.
[[nodiscard]] std::optional<QueueState> queue_state_of(std::string_view field);

/// The greatest number that scripts compute with exactly. Later times are stored as this one.
inline constexpr std::int64_t latest_ms = (std::int64_t{1} << 53) - 1;

}  // namespace holdfast::redis
