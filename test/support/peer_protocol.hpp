#pragma once

#include <holdfast/lock_backend.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "support/times.hpp"

/// What a test process and its peer say to each other: one JSON object a line, each answered by one line.
namespace holdfast::test::peer {

using nlohmann::json;

inline std::string bytes_to_hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += digits[static_cast<unsigned char>(c) >> 4];
    hex += digits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

inline std::string hex_to_bytes(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

inline json to_json(const LockKey& key) {
  return bytes_to_hex(key.str());
}
inline LockKey to_key(const json& j) {
  return LockKey::parse(hex_to_bytes(j)).value_or_throw();
}
inline LockId to_id(const json& j) {
  return LockId::parse(j.get<std::string>()).value_or_throw();
}

/// A label: null for none.
inline json to_json(const LockHolder* holder) {
  return holder != nullptr ? json(bytes_to_hex(holder->str())) : json();
}
inline std::shared_ptr<const LockHolder> to_holder(const json& j) {
  if (j.is_null()) return nullptr;
  return std::make_shared<const LockHolder>(LockHolder::parse(hex_to_bytes(j)).value_or_throw());
}

inline json to_json(const LockRecord& record) {
  return {
      {"key", to_json(record.key)},          {"id", record.id.str()},
      {"fence", record.fence.value()},       {"acquired", to_ms(record.acquired_at)},
      {"expires", to_ms(record.expires_at)}, {"holder", to_json(record.holder ? &*record.holder : nullptr)}};
}

inline LockRecord to_record(const json& j) {
  return {.key = to_key(j.at("key")),
          .id = to_id(j.at("id")),
          .fence = Fence::of(j.at("fence").get<std::uint64_t>()).value_or_throw(),
          .acquired_at = from_ms(j.at("acquired")),
          .expires_at = from_ms(j.at("expires")),
          .holder = j.at("holder").is_null() ? std::nullopt : std::optional(*to_holder(j.at("holder")))};
}

inline json to_json(const LockRef& ref) {
  json j{{"id", ref.id.str()}};
  if (ref.key) j["key"] = to_json(*ref.key);
  return j;
}

inline LockRef to_ref(const json& j) {
  return {.id = to_id(j.at("id")),
          .key = j.contains("key") ? std::optional(to_key(j.at("key"))) : std::nullopt};
}

inline json to_json(const Error& error) {
  return {{"error", static_cast<int>(error.code())},
          {"message", error.message()},
          {"key", bytes_to_hex(error.key())},
          {"id", error.lock_id()}};
}

inline Error to_error(const json& j) {
  return Error(static_cast<ErrorCode>(j.at("error").get<int>()), j.at("message"))
      .about(hex_to_bytes(j.at("key")), j.at("id").get<std::string>());
}

/// A deadline is the same moment in both processes: they share the boot clock.
inline json to_json(BootTime at) {
  return at.time_since_epoch().count();
}
inline BootTime to_time(const json& j) {
  return BootTime(BootClock::duration(j.get<std::int64_t>()));
}

}  // namespace holdfast::test::peer
