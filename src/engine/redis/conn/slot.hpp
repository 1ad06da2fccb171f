#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::redis {

// Which keys belong together in a Redis Cluster. Pure.

/// The number of slots of every cluster.
inline constexpr std::uint16_t cluster_slots = 16384;

/// The part of a key that decides its slot: the text between the first `{` and the first `}` behind it, if
/// that is not empty; else the whole key.
[[nodiscard]] std::string_view hashed_part(std::string_view key) noexcept;

/// The slot of a key: CRC16 (XMODEM) of its hashed part, modulo 16384.
[[nodiscard]] std::uint16_t slot_of(std::string_view key) noexcept;

/// Whether every name that begins with this prefix has one slot, that of its hash tag.
[[nodiscard]] bool has_hash_tag(std::string_view prefix) noexcept;

/// How messages are published: PUBLISH, which reaches every node of a cluster, or SPUBLISH, which reaches the
/// shard of the channel's slot.
enum class Channels : std::uint8_t { global, sharded };

}  // namespace holdfast::redis
