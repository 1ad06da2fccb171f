#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

// The parts that commands and replies of several scripts share.

/// The codes that scripts return in place of success; see their headers.
enum RecordCode : std::int8_t {
  conflict_of_put = 0,
  nothing_there = -1,
  stale_fence = -2,
  not_a_record = -3,
  wrong_lock = -4,
  conflict_of_remove = -5,
  quota_reached = -5,
  left_its_queue = -6,
};

using Parts = std::span<redisReply* const>;

/// The parts of a record in an answer: version, data, incarnation, origin, fence, authority, lock key, queue.
inline constexpr std::size_t record_parts = 8;

/// `expires_at` as it is stored: in seconds; empty for none.
[[nodiscard]] std::string expires_at_text(const RecordData& data);
/// When Redis must drop the record, in milliseconds; empty for never.
[[nodiscard]] std::string dropped_at_text(const RecordData& data);

/// Authority, lock key and fence; three empty arguments for none.
void add_token(Command& command, const std::optional<FencingToken>& token);

[[nodiscard]] Error unreadable_record();
/// The same error, naming the record with this key.
[[nodiscard]] Error cannot_be_read(std::string_view key, const Error& why);
/// What is wrong with the field `queue` of a record, in these record_parts parts; empty: nothing.
[[nodiscard]] std::optional<Error> damage_of(Parts parts);
/// The error for a reply that is not an outcome of the operation.
[[nodiscard]] Error not_an_outcome(const redisReply& reply, std::string_view operation, std::string_view key);

/// Empty if it is not a number that is at least 0.
[[nodiscard]] std::optional<std::uint64_t> version_of(const redisReply& reply);
/// The number that the text of a reply is.
[[nodiscard]] std::optional<std::int64_t> number_of(const redisReply& reply);
[[nodiscard]] std::optional<FencingToken> token_of(const redisReply& authority, const redisReply& lock_key,
                                                   const redisReply& fence);
/// Empty if no script returns such parts.
[[nodiscard]] std::optional<StoredRecord> record_of(Parts parts);
/// The conflict in the three parts {code, version, incarnation}; empty if they are something else.
[[nodiscard]] std::optional<VersionConflict> conflict_of(Parts parts, const ExpectedVersion& expected);

/// FenceRefused, for any outcome type that has it; empty if the reply is something else.
template <class Outcome>
std::optional<Outcome> refusal_by_guard(Parts parts, const FencingToken& given) {
  if (parts.empty()) return std::nullopt;
  const auto code = integer_of(*parts[0]);
  if (code == RecordCode::stale_fence && parts.size() == 2) {
    if (const auto highest = Fence::parse(text_of(*parts[1]))) {
      FencingToken bound_to{.authority = given.authority, .lock_key = given.lock_key, .fence = *highest};
      return Outcome(
          FenceRefused{.why = ErrorCode::StaleFence, .given = given.fence, .bound_to = std::move(bound_to)});
    }
  }
  if (code == RecordCode::wrong_lock && parts.size() == 4) {
    if (auto bound_to = token_of(*parts[1], *parts[2], *parts[3])) {
      return Outcome(
          FenceRefused{.why = ErrorCode::WrongLock, .given = given.fence, .bound_to = *std::move(bound_to)});
    }
  }
  return std::nullopt;
}

}  // namespace holdfast::redis
