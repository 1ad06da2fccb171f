#pragma once

#include <cstddef>
#include <holdfast/export.hpp>
#include <string>
#include <string_view>

namespace holdfast {

/// Returns the text in a form that is safe for a terminal and stays one line of a log: control characters
/// (see control_character_bytes) and bytes that are not UTF-8 are shown as \\xNN.
///
/// For texts that other people chose, such as keys and the labels of holders.
[[nodiscard]] HOLDFAST_EXPORT std::string printable(std::string_view text);

/// Returns the length in bytes of the control character at the front of UTF-8 text; 0 if there is none.
///
/// These are C0, DEL and C1, which terminals obey; the line separators U+2028 and U+2029; and the
/// bidirectional ones, which make a terminal show what follows in another order, so that a text can look like
/// another.
[[nodiscard]] HOLDFAST_EXPORT std::size_t control_character_bytes(std::string_view text) noexcept;

}  // namespace holdfast
