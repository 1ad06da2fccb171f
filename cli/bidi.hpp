#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::cli {

/// The length in bytes of the bidirectional control character at the front of UTF-8 text; 0 if none is there.
/// They make a terminal show what follows in another order, so that a key can look like another one.
[[nodiscard]] constexpr std::size_t bidi_control(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  if (byte(0) == 0xD8 && byte(1) == 0x9C) return 2;  // U+061C
  if (byte(0) != 0xE2) return 0;
  const auto last = byte(2);
  const bool marks = byte(1) == 0x80 && (last == 0x8E || last == 0x8F || (last >= 0xAA && last <= 0xAE));
  const bool isolates = byte(1) == 0x81 && last >= 0xA6 && last <= 0xA9;
  return marks || isolates ? 3 : 0;  // U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069
}

}  // namespace holdfast::cli
