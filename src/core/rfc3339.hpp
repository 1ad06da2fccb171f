#pragma once

#include <holdfast/clock.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::core {

/// Milliseconds since the epoch of an RFC 3339 time, with any offset and any number of fractional digits
/// (those beyond the third are cut off); negative before 1970. Empty if the text is invalid.
[[nodiscard]] std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept;

/// In UTC, with milliseconds and `Z`. Requires a time from 1970 to 9999.
[[nodiscard]] std::string format_rfc3339(WallTime at);

}  // namespace holdfast::core
