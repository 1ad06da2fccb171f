#pragma once

#include <string>
#include <string_view>

namespace holdfast::redis {

/// A pattern that matches this text and nothing else.
[[nodiscard]] inline std::string without_glob(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace holdfast::redis
