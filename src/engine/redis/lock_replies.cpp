#include "engine/redis/lock_replies.hpp"

#include "core/lock_decisions.hpp"
#include "core/wall_time.hpp"
#include "engine/redis/wire/errors.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

Error about(const Error& error, const RequestSubject& subject) {
  return error.about(subject.key, subject.lock_id);
}

Error no_lock_record() {
  return {ErrorCode::Internal,
          "the value at this lock's key in Redis is not a valid lock record and was not changed. Delete it "
          "if no program needs it, or choose another key or prefix"};
}

Error not_an_outcome(const redisReply& reply, std::string_view operation, const RequestSubject& subject) {
  const auto error = [&] {
    if (is_error(reply)) return error_of(reply, subject.key);
    const auto code = integer_of(reply);
    if (code == LockCode::no_record) return no_lock_record();
    if (code == LockCode::counter_used_up) return core::fences_exhausted();
    if (code == LockCode::counter_below_zero) {
      return Error(ErrorCode::Internal,
                   "the fence counter of this key has an invalid value below zero; set it to the highest "
                   "fence ever granted for the key, or choose another key");
    }
    if (code == LockCode::used_by_syncguard) {
      return Error(ErrorCode::InvalidArgument,
                   "the lock was not granted: in Redis there is a fence counter of SyncGuard, or of "
                   "layout=documented, for this key, and layout=native would count anew. Use "
                   "layout=documented, or another lock_prefix");
    }
    if (code == LockCode::id_holds_another) return core::id_holds_another_key();
    if (code == LockCode::id_was_released) {
      return Error(ErrorCode::Internal, "this lock id was already released; use a new id for each lock")
          .with(Effect::id_is_spent);
    }
    return Error(ErrorCode::Internal, "unexpected reply of Redis to " + std::string(operation) +
                                          "; check for a proxy, or a server that is not Redis");
  }();
  return about(error, subject);
}

std::optional<Absence> absence_of(const redisReply& reply) {
  const auto code = integer_of(reply);
  if (code == 0) return Absence::other_owner;
  if (code == -1) return Absence::not_found;
  if (code == -2) return Absence::expired;
  return std::nullopt;
}

std::optional<Extended> extended_of(const redisReply& reply) {
  const auto parts = elements_of(reply);
  if (parts.size() != 2 || integer_of(*parts[0]) != 1) return std::nullopt;
  const auto expires_at = integer_of(*parts[1]);
  return expires_at ? std::optional(Extended{.expires_at = core::from_ms(*expires_at)}) : std::nullopt;
}

}  // namespace holdfast::redis
