#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/json.hpp>
#include <holdfast/printable.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terminal/log.hpp"

namespace holdfast::cli {

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
[[nodiscard]] std::string iso_time(WallTime time);
/// Now, by this machine's wall clock.
[[nodiscard]] WallTime wall_clock();
/// How long until then, or since then, by this machine's wall clock; never negative.
[[nodiscard]] std::chrono::milliseconds time_until(WallTime time);
[[nodiscard]] std::chrono::milliseconds time_since(WallTime time);
/// "2026-01-31T23:59:59.123Z (in 30 s)"
[[nodiscard]] std::string expiry(WallTime time);

/// Writes one line to stderr, `holdfast: MESSAGE`, in one write so that lines of several processes do not
/// mix. A line that cannot be written is dropped. With `--log-format json` the line is a JSON object with
/// these details; a message that begins with `warning: ` has that level.
void complain(std::string_view message, LogDetails details = {}) noexcept;
/// The same, or with --json as `{"error":{"code":CODE,"message":MESSAGE}}` and the holder, if it is not
/// empty. With `--log-format json` it is a line of that log in both cases: an error, unless `details` name
/// another event.
void complain(bool as_json, std::string_view code, std::string_view message, std::string_view holder = {},
              LogDetails details = {.event = "error", .level = LogSeverity::error}) noexcept;
/// Writes any object as one line to stderr, for messages while stdout is a command's; whatever the format of
/// the log. A line that cannot be written is dropped.
void write_json_line(const nlohmann::ordered_json& object) noexcept;

/// Prints one result on stdout, one line. Throws Error(Internal) if it cannot be written: the caller must not
/// believe that there is no result.
void print_json(const nlohmann::ordered_json& object);
/// The same for JSON that users wrote.
void print_json_text(const Json& value);
/// The same over several lines, indented. Still JSON, and safe for a terminal.
void print_indented(const Json& value);
/// One line, printable.
void print_text(std::string_view text);
using Fields = std::vector<std::pair<std::string, std::string>>;
/// `name  value` lines, values aligned.
void print_fields(const Fields& fields);
/// A table: the first row is its head.
void print_table(const std::vector<std::vector<std::string>>& rows);
/// A result as JSON on stdout, or its message on stderr.
void print_json_or_complain(bool as_json, const nlohmann::ordered_json& object, std::string_view message);

/// A table of any length: rows are printed some hundred at a time, so columns may become wider on the way.
class LongTable {
 public:
  explicit LongTable(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row);
  /// Prints the rows that are left; without any row, not even the head.
  void finish();

 private:
  void print();
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
  bool empty_ = true;
};

/// Whether a user can see a question and answer it: stdin and stderr are terminals.
[[nodiscard]] bool can_ask() noexcept;
/// Asks on stderr and reads a line of stdin: true for `y` or `yes` in any case, false for all else.
[[nodiscard]] bool confirm(std::string_view question);

}  // namespace holdfast::cli
