#include <holdfast/printable.hpp>

#include "core/utf8.hpp"

namespace holdfast {

std::size_t control_character_bytes(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  if (text.empty()) return 0;
  if (core::is_control(text.front())) return 1;
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) < 0xA0) return 2;
  if (byte(0) == 0xD8 && byte(1) == 0x9C) return 2;  // U+061C
  if (byte(0) != 0xE2) return 0;
  // U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069
  const auto last = byte(2);
  const bool marks = byte(1) == 0x80 && (last == 0x8E || last == 0x8F || (last >= 0xA8 && last <= 0xAE));
  const bool isolates = byte(1) == 0x81 && last >= 0xA6 && last <= 0xA9;
  return marks || isolates ? 3 : 0;
}

std::string printable(std::string_view text) {
  constexpr std::string_view hex_digits = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto control = control_character_bytes(text);
    const auto bytes = core::code_point_bytes(text);
    // Of a control character all bytes, so that none of them is left over; of what is not UTF-8, one.
    const auto shown = text.substr(0, bytes > 0 ? bytes : 1);
    if (bytes > 0 && control == 0) {
      out += shown;
    } else {
      for (const char c : shown) {
        const auto byte = static_cast<unsigned char>(c);
        out.append("\\x").append(1, hex_digits[byte >> 4U]).append(1, hex_digits[byte & 15U]);
      }
    }
    text.remove_prefix(shown.size());
  }
  return out;
}

}  // namespace holdfast
