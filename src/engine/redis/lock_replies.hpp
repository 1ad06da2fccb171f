#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/lock_backend.hpp>
#include <optional>
#include <string_view>

namespace holdfast::redis {

// What the lock scripts of every layout return in place of an outcome.

enum LockCode : std::int8_t {
  no_record = -3,
  counter_used_up = -4,
  id_holds_another = -5,
  id_was_released = -6,
  counter_below_zero = -7,
  used_by_syncguard = -8,
};

/// The error, with the key and the lock id of its request.
[[nodiscard]] Error about(const Error& error, const RequestSubject& subject);

/// The error for a value at a lock key that is not a lock.
[[nodiscard]] Error no_lock_record();

/// The error for a reply that is not an outcome of the operation.
[[nodiscard]] Error not_an_outcome(const redisReply& reply, std::string_view operation,
                                   const RequestSubject& subject);

/// The absence that a release or an extend returned; empty if it returned something else.
[[nodiscard]] std::optional<Absence> absence_of(const redisReply& reply);

/// The new expiry that a script returned, as {1, expiresAtMs}; empty if it returned something else.
[[nodiscard]] std::optional<Extended> extended_of(const redisReply& reply);

}  // namespace holdfast::redis
