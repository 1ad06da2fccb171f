#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace holdfast::cli {

/// `30` and `0.5` are seconds; `500ms`, `30s`, `5m`, `2h`, `1d` say their unit. Exact: what is not a whole
/// number of milliseconds is refused, not rounded. Zero is a duration; whether it makes sense is for the
/// option to say. Throws UsageError that starts with `option`.
[[nodiscard]] std::chrono::milliseconds parse_duration(std::string_view option, std::string_view text);

/// The same, and zero is refused too.
[[nodiscard]] std::chrono::milliseconds parse_positive_duration(std::string_view option,
                                                                std::string_view text);

/// "30 s", "0.5 s", "5 m": for people, in the largest unit that shows it well.
[[nodiscard]] std::string describe(std::chrono::milliseconds length);

}  // namespace holdfast::cli
