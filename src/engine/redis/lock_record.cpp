#include "engine/redis/lock_record.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

namespace holdfast::redis {
namespace {

using nlohmann::json;

Error bad_field(std::string_view what) {
  return Error(ErrorCode::Internal, "the value at a lock key in Redis is no lock record",
               "bad field " + std::string(what));
}

const std::string* text_at(const json& record, const char* name) {
  const auto found = record.find(name);
  return found == record.end() ? nullptr : found->get_ptr<const std::string*>();
}

/// Of 15 digits, or of 19, as SyncGuard 1.0 writes them.
std::optional<Fence> fence_of(std::string_view text) {
  constexpr std::size_t old_digits = 19;
  if (text.size() != old_digits) {
    const auto fence = Fence::parse(text);
    return fence ? std::optional(*fence) : std::nullopt;
  }
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto fence = Fence::of(value);
  if (failed != std::errc() || end != text.data() + text.size() || !fence) return std::nullopt;
  return *fence;
}

/// Milliseconds since the epoch.
std::optional<std::int64_t> time_at(const json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::int64_t>();
}

}  // namespace

Result<LockRecord> parse_lock_record(std::string_view text) {
  const auto record = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) {
    return Error(ErrorCode::Internal, "the value at a lock key in Redis is no lock record",
                 "not a JSON object");
  }
  const auto* id = text_at(record, "lockId");
  const auto* key = text_at(record, "key");
  const auto* fence = text_at(record, "fence");
  const auto acquired_at_ms = time_at(record, "acquiredAtMs");
  const auto expires_at_ms = time_at(record, "expiresAtMs");
  if (id == nullptr) return bad_field("lockId");
  if (key == nullptr) return bad_field("key");
  if (fence == nullptr) return bad_field("fence");
  if (!acquired_at_ms) return bad_field("acquiredAtMs");
  if (!expires_at_ms) return bad_field("expiresAtMs");
  auto parsed_id = LockId::parse(*id);
  if (!parsed_id) return bad_field("lockId");
  auto parsed_key = LockKey::stored(*key);
  if (!parsed_key) return bad_field("key");
  const auto parsed_fence = fence_of(*fence);
  if (!parsed_fence) return bad_field("fence");
  return LockRecord{.key = *std::move(parsed_key),
                    .id = *parsed_id,
                    .fence = *parsed_fence,
                    .acquired_at_ms = *acquired_at_ms,
                    .expires_at_ms = *expires_at_ms,
                    .fence_digits = static_cast<int>(fence->size())};
}

std::string json_string(const LockKey& key) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(key.str(), is_plain)) [[likely]]
    return '"' + key.str() + '"';
  return json(key.str()).dump();
}

}  // namespace holdfast::redis
