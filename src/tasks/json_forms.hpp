#pragma once

#include <string>
#include <string_view>

namespace holdfast::tasks {

// Standard forms of valid JSON. Neither function is recursive.

/// Without optional parts: no space between tokens, and in strings only the escapes that JSON requires.
/// Numbers stay as written.
[[nodiscard]] std::string compact(std::string_view json);

/// Equal for equal values: compact, and members sorted by name (of duplicates the last counts). Two texts
/// whose numbers differ in value, in any digit, differ here too. For digests.
[[nodiscard]] std::string canonical(std::string_view json);

}  // namespace holdfast::tasks
