#pragma once

#include <array>
#include <holdfast/result.hpp>
#include <string_view>

namespace holdfast::core {

using Sha256 = std::array<unsigned char, 32>;

/// Internal if OpenSSL does not have it.
[[nodiscard]] Result<Sha256> sha256(std::string_view text);

}  // namespace holdfast::core
