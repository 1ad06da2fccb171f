#include "engine/redis/record_replies.hpp"

#include <memory>

#include "core/number.hpp"
#include "core/wall_time.hpp"
#include "engine/redis/queue_state.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {
namespace {

/// A record of other software has only a digest as incarnation, which changes with its data: if its version
/// changed too, it is most likely the same record.
bool is_digest(const std::string& incarnation) {
  return incarnation.starts_with('~');
}

}  // namespace

std::string expires_at_text(const RecordData& data) {
  if (!data.expires_at()) return {};
  // Rounded up: a reader that uses this field alone does not lose the record's last second.
  return std::to_string((core::to_ms(*data.expires_at()) + 999) / 1000);
}

std::string dropped_at_text(const RecordData& data) {
  // Redis drops a key after the millisecond of its PXAT; the record must be gone when that one begins.
  return data.expires_at() ? std::to_string(core::to_ms(*data.expires_at()) - 1) : std::string();
}

void add_token(Command& command, const std::optional<FencingToken>& token) {
  if (token) {
    command.add(token->authority).add(token->lock_key).add(token->fence.to_string());
  } else {
    command.add("").add("").add("");
  }
}

Error unreadable_record() {
  return {ErrorCode::Internal,
          "invalid record of this task in Redis: version, data, expires_at, fence or the index entry is "
          "missing or malformed. It was not changed; inspect it with HGETALL, then repair or remove it"};
}

std::optional<Error> damage_of(Parts parts) {
  const auto& field = *parts.back();
  if (field.type != REDIS_REPLY_STRING || queue_state_of(text_of(field))) return std::nullopt;
  return Error(ErrorCode::Internal,
               "the field \"queue\" of this task's hash in Redis is damaged: its " +
                   std::to_string(text_of(field).size()) +
                   " bytes are not the state of a task in a queue. It was not changed; restore the field, or "
                   "remove the task: holdfast queue rm QUEUE ID");
}

Error cannot_be_read(std::string_view key, const Error& why) {
  const auto task = key.substr(key.find(':') + 1);
  return Error(why.code(), "the task " + std::string(task) + " cannot be read: " + why.message())
      .about(key, {});
}

Error not_an_outcome(const redisReply& reply, std::string_view operation, std::string_view key) {
  const auto error = [&] {
    if (is_error(reply)) return error_of(reply, key);
    const auto parts = elements_of(reply);
    if (integer_of(parts.empty() ? reply : *parts[0]) == RecordCode::not_a_record) {
      return unreadable_record();
    }
    if (parts.size() >= record_parts) {
      if (auto damaged = damage_of(parts.last(record_parts))) return cannot_be_read(key, *damaged);
    }
    return Error(ErrorCode::Internal, "unexpected reply of Redis to " + std::string(operation) +
                                          " of a record; check for a proxy, or a server that is not Redis");
  }();
  return error.about(key, {});
}

std::optional<std::uint64_t> version_of(const redisReply& reply) {
  const auto version = integer_of(reply);
  if (!version || *version < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*version);
}

std::optional<FencingToken> token_of(const redisReply& authority, const redisReply& lock_key,
                                     const redisReply& fence) {
  auto parsed = Fence::parse(text_of(fence));
  if (!parsed || authority.type != REDIS_REPLY_STRING || lock_key.type != REDIS_REPLY_STRING)
    return std::nullopt;
  return FencingToken{.authority = std::string(text_of(authority)),
                      .lock_key = std::string(text_of(lock_key)),
                      .fence = *parsed};
}

std::optional<StoredRecord> record_of(Parts parts) {
  if (parts.size() != record_parts) return std::nullopt;
  const auto version = version_of(*parts[0]);
  if (!version || parts[1]->type != REDIS_REPLY_STRING || parts[2]->type != REDIS_REPLY_STRING)
    return std::nullopt;
  StoredRecord record{.data = std::string(text_of(*parts[1])),
                      .version = *version,
                      .incarnation = std::string(text_of(*parts[2])),
                      .bound_to = {},
                      .origin = std::string(text_of(*parts[3]))};
  if (parts[4]->type != REDIS_REPLY_NIL) {
    record.bound_to = token_of(*parts[5], *parts[6], *parts[4]);
    if (!record.bound_to) return std::nullopt;
  }
  if (parts[7]->type != REDIS_REPLY_NIL) {
    auto queue = queue_state_of(text_of(*parts[7]));
    if (!queue) return std::nullopt;
    record.queue = std::make_shared<const QueueState>(*std::move(queue));
  }
  return record;
}

std::optional<VersionConflict> conflict_of(Parts parts, const ExpectedVersion& expected) {
  if (parts.size() != 3 || parts[2]->type != REDIS_REPLY_STRING) return std::nullopt;
  const auto actual = version_of(*parts[1]);
  if (!actual) return std::nullopt;
  const bool another = !expected.incarnation.empty() && text_of(*parts[2]) != expected.incarnation;
  const bool changed_by_others = is_digest(expected.incarnation) && *actual > expected.version;
  return VersionConflict{
      .expected = expected.version, .actual = *actual, .replaced = another && !changed_by_others};
}

std::optional<std::int64_t> number_of(const redisReply& reply) {
  return core::whole_number<std::int64_t>(text_of(reply));
}

}  // namespace holdfast::redis
