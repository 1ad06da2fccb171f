#pragma once

#include <string_view>

namespace holdfast::core {

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

}  // namespace holdfast::core
