#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::core {

/// Undoes percent-encoding (%41 is A; + stays +). Empty if a % is not followed by two hex digits.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

/// The text with everything percent-encoded but letters, digits, -._~ and the characters of `also_plain`.
[[nodiscard]] std::string percent_encoded(std::string_view text, std::string_view also_plain = {});

}  // namespace holdfast::core
