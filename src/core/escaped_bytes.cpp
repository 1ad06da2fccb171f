#include "core/escaped_bytes.hpp"

#include <algorithm>

#include "core/utf8.hpp"

namespace holdfast::core {
namespace {

/// Whether the text begins with a character that stands for a byte.
bool begins_with_escape(std::string_view text) {
  return text.size() >= 3 && text[0] == '\xEF' && (text[1] == '\x9E' || text[1] == '\x9F');
}

bool is_ascii_byte(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

}  // namespace

std::string escaped_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto plain =
        static_cast<std::size_t>(std::ranges::find_if_not(bytes, is_ascii_byte) - bytes.begin());
    text.append(bytes.substr(0, plain));
    bytes.remove_prefix(plain);
    if (bytes.empty()) break;
    auto size = code_point_bytes(bytes);
    if (size != 0 && !begins_with_escape(bytes)) {
      text.append(bytes.substr(0, size));
    } else {
      size = 1;
      const auto byte = static_cast<unsigned char>(bytes[0]);
      text += '\xEF';
      text += byte < 0xC0 ? '\x9E' : '\x9F';
      text += static_cast<char>(0x80U | (byte & 0x3FU));
    }
    bytes.remove_prefix(size);
  }
  return text;
}

std::string unescaped_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const auto plain = std::min(text.find('\xEF'), text.size());
    bytes.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    if (begins_with_escape(text)) {
      bytes += static_cast<char>((text[1] == '\x9E' ? 0x80U : 0xC0U) |
                                 (static_cast<unsigned char>(text[2]) & 0x3FU));
      text.remove_prefix(3);
    } else {
      bytes += text[0];
      text.remove_prefix(1);
    }
  }
  return bytes;
}

}  // namespace holdfast::core
