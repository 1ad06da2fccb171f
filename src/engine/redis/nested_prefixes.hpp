#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

// A colon joins a lock prefix and a user key, so prefixes nest: the key `b:x` under `a` and the key `x` under
// `a:b` have one name in Redis, `a:b:x`, and are one lock.

/// The lock prefix whose fence counter or authority has this name; nothing if it is not the name of one. A
/// prefix that is in use has at least one such name, for ever.
[[nodiscard]] std::optional<std::string> prefix_of_counter(std::string_view name);

/// Whether one of two different prefixes contains the other's names.
[[nodiscard]] bool prefixes_nest(std::string_view one, std::string_view other);

/// The prefixes that contain this one's names, the longest first; the last is the empty one.
[[nodiscard]] std::vector<std::string> outer_prefixes(std::string_view prefix);

}  // namespace holdfast::redis
