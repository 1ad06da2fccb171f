#include "engine/redis/lock_record.hpp"

#include <optional>

#include "core/json_scanner.hpp"
#include "core/number.hpp"
#include "core/wall_time.hpp"

namespace holdfast::redis {
namespace {

using core::JsonScanner;
using core::JsonToken;

Error bad_field(std::string_view what) {
  return Error(ErrorCode::Internal, "the value at a lock key in Redis is not a valid lock record",
               "bad field " + std::string(what));
}

/// Accepts 15 digits, or 19 as SyncGuard 1.0 writes them.
std::optional<Fence> fence_of(std::string_view text) {
  constexpr std::size_t old_digits = 19;
  if (text.size() != old_digits) {
    const auto fence = Fence::parse(text);
    return fence ? std::optional(*fence) : std::nullopt;
  }
  const auto value = core::whole_number<std::uint64_t>(text);
  if (!value) return std::nullopt;
  const auto fence = Fence::of(*value);
  return fence ? std::optional(*fence) : std::nullopt;
}

/// The last member of each name counts; empty if it has another type.
struct Fields {
  std::optional<std::string> id, key, fence, holder;
  std::optional<WallTime> acquired_at, expires_at;
};

std::optional<std::string> take_text(JsonScanner& scanner) {
  if (scanner.next() == JsonToken::string) return scanner.text();
  scanner.finish_value();
  return std::nullopt;
}

/// A whole number without a sign.
std::optional<WallTime> take_time(JsonScanner& scanner) {
  const auto value = core::whole_number<std::uint64_t>(scanner.take_value().text);
  if (!value) return std::nullopt;
  return core::from_ms(static_cast<std::int64_t>(*value));
}

/// Empty if the text is not a JSON object.
std::optional<Fields> fields_of(std::string_view text) {
  Fields fields;
  JsonScanner scanner(text);
  if (scanner.next() != JsonToken::object) return std::nullopt;
  scanner.for_each_member([&] {
    const auto name = scanner.text();
    if (name == "lockId") {
      fields.id = take_text(scanner);
    } else if (name == "key") {
      fields.key = take_text(scanner);
    } else if (name == "fence") {
      fields.fence = take_text(scanner);
    } else if (name == "acquiredAtMs") {
      fields.acquired_at = take_time(scanner);
    } else if (name == "expiresAtMs") {
      fields.expires_at = take_time(scanner);
    } else if (name == "holder") {
      fields.holder = take_text(scanner);
    } else {
      scanner.take_value();
    }
  });
  return scanner.at_end() ? std::optional(std::move(fields)) : std::nullopt;
}

}  // namespace

Result<LockRecord> parse_lock_record(std::string_view text) {
  const auto fields = fields_of(text);
  if (!fields) {
    return Error(ErrorCode::Internal, "the value at a lock key in Redis is not a valid lock record",
                 "not a JSON object");
  }
  const auto& [id, key, fence, holder, acquired_at, expires_at] = *fields;
  if (!id) return bad_field("lockId");
  if (!key) return bad_field("key");
  if (!fence) return bad_field("fence");
  if (!acquired_at) return bad_field("acquiredAtMs");
  if (!expires_at) return bad_field("expiresAtMs");
  auto parsed_id = LockId::parse(*id);
  if (!parsed_id) return bad_field("lockId");
  auto parsed_key = LockKey::stored(*key);
  if (!parsed_key) return bad_field("key");
  const auto parsed_fence = fence_of(*fence);
  if (!parsed_fence) return bad_field("fence");
  return LockRecord{.key = *std::move(parsed_key),
                    .id = *parsed_id,
                    .fence = *parsed_fence,
                    .acquired_at = *acquired_at,
                    .expires_at = *expires_at,
                    .fence_digits = static_cast<int>(fence->size()),
                    .holder = holder ? LockHolder::shortened(*holder) : std::nullopt};
}

std::string json_string(const LockKey& key) {
  return core::json_string(key.str());
}

std::string holder_field(const LockHolder* holder) {
  return holder != nullptr ? ",\"holder\":" + core::json_string(holder->str()) : std::string();
}

std::optional<LockHolder> holder_in(std::string_view field) {
  if (!field.starts_with(',')) return std::nullopt;
  const auto fields = fields_of("{" + std::string(field.substr(1)));
  return fields && fields->holder ? LockHolder::shortened(*fields->holder) : std::nullopt;
}

}  // namespace holdfast::redis
