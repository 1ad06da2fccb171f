#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace holdfast::core {

/// base64url without padding.
[[nodiscard]] std::string base64url(std::span<const unsigned char> bytes);

[[nodiscard]] constexpr bool is_base64url(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

}  // namespace holdfast::core
