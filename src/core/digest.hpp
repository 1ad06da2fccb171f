#pragma once

#include <array>
#include <cstddef>
#include <holdfast/result.hpp>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::core {

using Sha256 = std::array<unsigned char, 32>;

/// Internal if OpenSSL does not have it.
[[nodiscard]] Result<Sha256> sha256(std::string_view text);

/// base64url without padding: four characters for three bytes. Written by hand because OpenSSL's, with
/// padding and another alphabet, costs a string and twice the time for each lock id.
void base64url(std::span<const unsigned char> bytes, char* out) noexcept;
[[nodiscard]] std::string base64url(std::span<const unsigned char> bytes);

[[nodiscard]] constexpr bool is_base64url(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

}  // namespace holdfast::core
