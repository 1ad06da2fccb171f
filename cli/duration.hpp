#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace holdfast::cli {

/// holdfast::parse_duration for the value of an option: throws UsageError that starts with `option`. Zero is
/// a duration; whether it makes sense is for the option to say.
[[nodiscard]] std::chrono::milliseconds parse_duration(std::string_view option, std::string_view text);

/// The same, and zero is refused too.
[[nodiscard]] std::chrono::milliseconds parse_positive_duration(std::string_view option,
                                                                std::string_view text);

/// "30 s", "0.5 s", "5 m": for people, in the largest unit that shows it well.
[[nodiscard]] std::string describe(std::chrono::milliseconds length);

}  // namespace holdfast::cli
