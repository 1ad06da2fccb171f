#pragma once

#include <string_view>

namespace holdfast::cli {

/// Whether somebody sits there who would see a question and could answer it.
[[nodiscard]] bool can_ask() noexcept;

/// Asks on stderr, and reads a line of standard input: true for `y` or `yes`, in any case. Anything else, the
/// end of the input included, is a no.
[[nodiscard]] bool confirm(std::string_view question);

}  // namespace holdfast::cli
