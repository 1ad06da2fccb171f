#pragma once

#include <chrono>
#include <holdfast/export.hpp>
#include <holdfast/result.hpp>
#include <string>
#include <string_view>

namespace holdfast {

/// A duration as people write it: `30` and `0.5` are seconds; `500ms`, `30s`, `5m`, `2h`, `1d` say their
/// unit. Exact: what is not a whole number of milliseconds is refused, not rounded. Zero is a duration; the
/// longest is 36525 days. The message of an InvalidArgument goes on after the text it is about: "is not a
/// duration; …".
[[nodiscard]] HOLDFAST_EXPORT Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// A text that parse_duration reads as this: `30s`, `1500ms`.
[[nodiscard]] HOLDFAST_EXPORT std::string duration_text(std::chrono::milliseconds length);

}  // namespace holdfast
