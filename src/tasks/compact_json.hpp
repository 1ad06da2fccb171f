#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::tasks {

// JSON without what its writer may add or leave out: no space between its parts, and in strings no escapes
// but those that JSON requires. Numbers stay as they are written. What limits count, so that they do not
// depend on which library wrote the text. Each takes valid JSON and goes through it once, not recursively.

[[nodiscard]] std::string compact(std::string_view json);
/// How long `compact` would be.
[[nodiscard]] std::size_t compact_bytes(std::string_view json);
/// How many bytes of UTF-8 the longest string in it is, names of members included.
[[nodiscard]] std::size_t longest_string_bytes(std::string_view json);

}  // namespace holdfast::tasks
