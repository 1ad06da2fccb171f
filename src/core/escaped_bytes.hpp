#pragma once

#include <string>
#include <string_view>

namespace holdfast::core {

// Any bytes as valid UTF-8, of which text stays as it is: a byte that is not part of a valid character
// becomes the character U+F700 + byte, three bytes. Characters from U+F780 to U+F7FF, which are for private
// use, are escaped byte by byte. The escaped texts of two pieces can be concatenated, wherever the bytes were
// cut.

[[nodiscard]] std::string escaped_bytes(std::string_view bytes);
[[nodiscard]] std::string unescaped_bytes(std::string_view text);

}  // namespace holdfast::core
