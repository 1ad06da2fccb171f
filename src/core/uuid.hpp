#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::core {

[[nodiscard]] inline std::string uuid(std::array<unsigned char, 16> b, unsigned version) {
  b[6] = static_cast<unsigned char>((b[6] & 0x0FU) | (version << 4));
  b[8] = static_cast<unsigned char>((b[8] & 0x3F) | 0x80);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[b[i] >> 4U];
    text += digits[b[i] & 0x0FU];
  }
  return text;
}

/// These random bytes as a version 4 UUID.
[[nodiscard]] inline std::string uuid_v4(const std::array<unsigned char, 16>& random) {
  return uuid(random, 4);
}

/// These bytes of a digest as a version 8 UUID, the version for custom formats.
[[nodiscard]] inline std::string uuid_v8(const std::array<unsigned char, 16>& digest) {
  return uuid(digest, 8);
}

}  // namespace holdfast::core
