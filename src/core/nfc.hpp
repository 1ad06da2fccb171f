#pragma once

#include <holdfast/result.hpp>
#include <string>
#include <string_view>

namespace holdfast::core {

/// The text in Unicode's normal form C. InvalidArgument if it is not valid UTF-8.
[[nodiscard]] Result<std::string> nfc(std::string_view text);

}  // namespace holdfast::core
