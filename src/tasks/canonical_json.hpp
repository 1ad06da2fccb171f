#pragma once

#include <string>
#include <string_view>

namespace holdfast::tasks {

/// Valid JSON in a form that is the same for the same value: members sorted by name (of those with one name
/// the last counts), strings without needless escapes, no spaces. Two texts whose numbers differ in value, in
/// whatever digit, differ here too. For digests. Not recursive.
[[nodiscard]] std::string canonical(std::string_view json);

}  // namespace holdfast::tasks
