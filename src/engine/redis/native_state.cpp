#include "engine/redis/native_state.hpp"

#include <charconv>

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

constexpr std::size_t label_bit = 1U << 15U, hash_bit = 1U << 14U;

/// What field `u` holds, by the last two bytes of the state.
struct FieldU {
  std::string_view key;  ///< empty if the name of the lock has it
  std::string_view label;
};
FieldU field_u(const NativeState::Holder& holder, std::string_view bytes) {
  const auto key_bytes = !holder.key_is_hashed  ? 0
                         : holder.key_size == 0 ? bytes.size()
                                                : std::min(holder.key_size, bytes.size());
  return {.key = bytes.substr(0, key_bytes),
          .label = holder.has_label ? bytes.substr(key_bytes) : std::string_view()};
}

void read_key_size(NativeState::Holder& holder, std::size_t value) {
  holder.has_label = (value & label_bit) != 0;
  holder.key_is_hashed = value == 0 || (holder.has_label && (value & hash_bit) != 0);
  holder.key_size = holder.has_label ? value & (hash_bit - 1) : value;
}

}  // namespace

std::optional<NativeState> NativeState::parse(std::string_view bytes) {
  if (bytes.size() < idle_size) return std::nullopt;
  NativeState state{
      .counter = number_at(bytes, 1, 7), .authority = hex(bytes.substr(8, 8)), .holder = std::nullopt};
  if (bytes.size() >= held_size) {
    state.holder = Holder{.expires_ms = static_cast<std::int64_t>(number_at(bytes, 16, 6)),
                          .acquired_ms = static_cast<std::int64_t>(number_at(bytes, 22, 6)),
                          .id = bytes.substr(28, LockId::length)};
    read_key_size(*state.holder, number_at(bytes, 50, 2));
  }
  return state;
}

std::string NativeState::key_part(std::string_view lock_key, std::size_t prefix_size, const LockKey& key,
                                  const LockHolder* holder) {
  const auto& text = key.str();
  // A hash has 22 bytes; no key of 22 bytes is hashed, because every prefix leaves room for it.
  const bool is_plain = lock_key.size() == prefix_size + text.size();
  auto value = is_plain ? text.size() : 0;
  if (holder != nullptr) value = text.size() | label_bit | (is_plain ? 0 : hash_bit);
  std::string part{static_cast<char>(value >> 8U), static_cast<char>(value & 0xFFU)};
  if (!is_plain) part += text;
  if (holder != nullptr) part += holder->str();
  return part;
}

std::optional<Refused> native_refusal(std::string_view text) {
  std::int64_t left = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), left);
  const auto rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (failed != std::errc() || left <= 0 || rest.size() < 3 || rest.front() != ' ') return std::nullopt;
  NativeState::Holder holder;
  read_key_size(holder, number_at(rest, 1, 2));
  Refused refused{.free_in = std::chrono::milliseconds(left)};
  if (auto label = LockHolder::shortened(field_u(holder, rest.substr(3)).label)) {
    refused.holder = std::make_shared<const LockHolder>(*std::move(label));
  }
  return refused;
}

std::optional<LockRecord> native_record(std::string_view bytes, std::string_view lock_key) {
  const auto state = NativeState::parse(bytes);
  if (!state || !state->holder || state->counter == 0 ||
      (!state->holder->key_is_hashed && state->holder->key_size > lock_key.size()))
    return std::nullopt;
  const auto& holder = *state->holder;
  const auto more = field_u(holder, bytes.substr(NativeState::held_size));
  const auto key_text = holder.key_is_hashed ? more.key : lock_key.substr(lock_key.size() - holder.key_size);
  auto key = LockKey::stored(key_text);
  const auto id = LockId::parse(holder.id);
  const auto fence = Fence::of(state->counter);
  if (!key || !id || !fence) return std::nullopt;
  return LockRecord{.key = *std::move(key),
                    .id = *id,
                    .fence = *fence,
                    .acquired_at = core::from_ms(holder.acquired_ms),
                    .expires_at = core::from_ms(holder.expires_ms),
                    .holder = LockHolder::shortened(more.label),
                    .authority = state->authority};
}

}  // namespace holdfast::redis
