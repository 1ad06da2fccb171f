#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace holdfast::core {

[[nodiscard]] inline std::string uuid(std::array<unsigned char, 16> b, unsigned version) {
  b[6] = static_cast<unsigned char>((b[6] & 0x0FU) | (version << 4));
  b[8] = static_cast<unsigned char>((b[8] & 0x3F) | 0x80);
  std::array<char, 37> text{};
  std::snprintf(text.data(), text.size(),
                "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
                b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text.data();
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
