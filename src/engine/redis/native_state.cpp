#include "engine/redis/native_state.hpp"

#include "core/wall_time.hpp"

namespace holdfast::redis {
namespace {

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (const char c : bytes.substr(at, size)) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4U];
    text += digits[static_cast<unsigned char>(c) & 0x0FU];
  }
  return text;
}

}  // namespace

std::optional<NativeState> NativeState::parse(std::string_view bytes) {
  if (bytes.size() < idle_size) return std::nullopt;
  NativeState state{
      .counter = number_at(bytes, 1, 7), .authority = hex(bytes.substr(8, 8)), .holder = std::nullopt};
  if (bytes.size() >= held_size) {
    state.holder = Holder{.expires_ms = static_cast<std::int64_t>(number_at(bytes, 16, 6)),
                          .acquired_ms = static_cast<std::int64_t>(number_at(bytes, 22, 6)),
                          .id = bytes.substr(28, LockId::length),
                          .key_size = number_at(bytes, 50, 2)};
  }
  return state;
}

std::string NativeState::key_part(std::string_view lock_key, std::size_t prefix_size, const LockKey& key) {
  const auto& text = key.str();
  // A hash has 22 bytes; no key of 22 bytes is hashed, because every prefix leaves room for it.
  const bool is_plain = lock_key.size() == prefix_size + text.size();
  std::string part{'\0', '\0'};
  if (!is_plain) return part + text;
  part[0] = static_cast<char>(text.size() >> 8U);
  part[1] = static_cast<char>(text.size() & 0xFFU);
  return part;
}

std::optional<LockRecord> native_record(std::string_view bytes, std::string_view lock_key) {
  const auto state = NativeState::parse(bytes);
  if (!state || !state->holder || state->counter == 0 || state->holder->key_size > lock_key.size())
    return std::nullopt;
  const auto& holder = *state->holder;
  const auto key_text = holder.key_size == 0 ? bytes.substr(NativeState::held_size)
                                             : lock_key.substr(lock_key.size() - holder.key_size);
  auto key = LockKey::stored(key_text);
  const auto id = LockId::parse(holder.id);
  const auto fence = Fence::of(state->counter);
  if (!key || !id || !fence) return std::nullopt;
  return LockRecord{.key = *std::move(key),
                    .id = *id,
                    .fence = *fence,
                    .acquired_at = core::from_ms(holder.acquired_ms),
                    .expires_at = core::from_ms(holder.expires_ms),
                    .authority = state->authority};
}

}  // namespace holdfast::redis
