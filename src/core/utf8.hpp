#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::core {

/// Whether the byte is a control character of ASCII.
[[nodiscard]] constexpr bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

/// Returns the length in bytes of the first code point; 0 if the text is empty or does not begin with valid
/// UTF-8 (no surrogates, no longer form than needed).
[[nodiscard]] inline std::size_t code_point_bytes(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&byte](std::size_t i, unsigned from = 0x80, unsigned to = 0xBF) {
    return byte(i) >= from && byte(i) <= to;
  };
  const auto first = byte(0);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    return continues(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool valid = continues(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) &&
                       continues(2) && continues(3);
    return valid ? 4 : 0;
  }
  return 0;
}

[[nodiscard]] inline bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto bytes = code_point_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace holdfast::core
