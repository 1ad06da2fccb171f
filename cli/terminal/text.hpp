#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::cli {

/// Makes any text safe for a terminal: control characters, bidirectional ones included, and bytes that are
/// not UTF-8 are shown as \xNN.
[[nodiscard]] std::string printable(std::string_view text);
/// Terminal columns, near enough: one for each code point.
[[nodiscard]] std::size_t width(std::string_view text) noexcept;
/// Cuts printable text to so many columns (more than three), with `...` at its end if it was longer.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t columns);
/// Printable text between double quotes.
[[nodiscard]] std::string quote(std::string_view text);
/// Printable text that a shell takes as one word: quoted if necessary, with bash's $'...' for text that is
/// not printable as it is.
[[nodiscard]] std::string shell_word(std::string_view text);

/// "30 s", "0.5 s", "5 min": in the largest unit that shows it well.
[[nodiscard]] std::string describe(std::chrono::milliseconds length);
/// 2026-01-31T23:59:59.123Z
[[nodiscard]] std::string iso_time(std::int64_t ms_since_epoch);
/// How long until then, or since then, by this machine's wall clock; never negative.
[[nodiscard]] std::chrono::milliseconds time_until(std::int64_t ms_since_epoch);
[[nodiscard]] std::chrono::milliseconds time_since(std::int64_t ms_since_epoch);
/// "2026-01-31T23:59:59.123Z (in 30 s)"
[[nodiscard]] std::string expiry(std::int64_t ms_since_epoch);

}  // namespace holdfast::cli
