#pragma once

#include <string>
#include <string_view>

namespace holdfast::tasks {

// Valid JSON, written in one way. Neither is recursive.

/// Without what its writer may add or leave out: no space between its parts, and in strings no escapes but
/// those that JSON requires. Numbers stay as they are written.
[[nodiscard]] std::string compact(std::string_view json);

/// The same for the same value: compact, and members sorted by name (of those with one name the last counts).
/// Two texts whose numbers differ in value, in whatever digit, differ here too. For digests.
[[nodiscard]] std::string canonical(std::string_view json);

}  // namespace holdfast::tasks
