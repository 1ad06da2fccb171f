#pragma once

#include <chrono>
#include <holdfast/export.hpp>
#include <holdfast/result.hpp>
#include <string>
#include <string_view>

namespace holdfast {

/// Parses a duration as users write it: `30` and `0.5` are seconds; `500ms`, `30s`, `5m`, `2h` and `1d` have
/// a unit.
///
/// Zero is accepted; the longest duration is 36525 days. InvalidArgument for all other texts, and for a
/// duration that is not a whole number of milliseconds: it is not rounded. The message continues a sentence
/// that begins with the text: "is not a duration; …".
[[nodiscard]] HOLDFAST_EXPORT Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// Returns a text that parse_duration() accepts: `30s` for whole seconds, otherwise `1500ms`. The length
/// must be one that parse_duration() can return.
[[nodiscard]] HOLDFAST_EXPORT std::string duration_text(std::chrono::milliseconds length);

}  // namespace holdfast
