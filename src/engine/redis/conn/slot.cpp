#include "engine/redis/conn/slot.hpp"

#include <array>
#include <charconv>

namespace holdfast::redis {
namespace {

constexpr std::array<std::uint16_t, 256> crc_table = [] {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte << 8U;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

std::uint16_t crc16(std::string_view text) noexcept {
  std::uint32_t crc = 0;
  for (const char c : text) {
    crc = ((crc << 8U) & 0xFFFFU) ^ crc_table[((crc >> 8U) ^ static_cast<unsigned char>(c)) & 0xFFU];
  }
  return static_cast<std::uint16_t>(crc);
}

/// Takes one bulk string from the front of an encoded command; empty if there is none.
std::optional<std::string_view> take_argument(std::string_view& bytes) noexcept {
  if (!bytes.starts_with('$')) return std::nullopt;
  std::size_t length = 0;
  const auto [end, failed] = std::from_chars(bytes.data() + 1, bytes.data() + bytes.size(), length);
  const auto begin = static_cast<std::size_t>(end - bytes.data()) + 2;  // behind \r\n
  if (failed != std::errc() || begin > bytes.size() || bytes.size() - begin < length + 2) return std::nullopt;
  const auto argument = bytes.substr(begin, length);
  bytes.remove_prefix(begin + length + 2);
  return argument;
}

}  // namespace

std::string_view hashed_part(std::string_view key) noexcept {
  const auto open = key.find('{');
  if (open == std::string_view::npos) return key;
  const auto close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

std::uint16_t slot_of(std::string_view key) noexcept {
  return crc16(hashed_part(key)) % cluster_slots;
}

bool has_hash_tag(std::string_view prefix) noexcept {
  return hashed_part(prefix).size() < prefix.size();
}

std::optional<std::string_view> routing_key(std::string_view command) noexcept {
  const auto line = command.find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  command.remove_prefix(line + 1);
  const auto name = take_argument(command);
  if (!name) return std::nullopt;
  if (*name == "GET" || *name == "SET") return take_argument(command);
  if (*name != "EVAL" && *name != "EVALSHA") return std::nullopt;
  const auto script = take_argument(command);
  const auto keys = script ? take_argument(command) : std::nullopt;
  return keys && *keys != "0" ? take_argument(command) : std::nullopt;
}

}  // namespace holdfast::redis
