#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/error.hpp>
#include <holdfast/json.hpp>
#include <holdfast/lock_types.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::cli {

/// Text that may come from anywhere, made safe for a terminal: control characters, those that turn the
/// direction of writing included, and bytes that are not UTF-8 are shown as \xNN.
[[nodiscard]] std::string printable(std::string_view text);
/// Printable text in so many columns at most (more than three), `...` at its end where there was more.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t columns);
/// The same between double quotes.
[[nodiscard]] std::string quote(std::string_view text);
/// Fit to print, and to be pasted into a shell as one word: between quotes if it needs them. What is not fit
/// to print takes bash's $'...'.
[[nodiscard]] std::string shell_word(std::string_view text);

/// One line on stderr, `holdfast: MESSAGE`, in one write so that lines of several processes do not mix.
/// What cannot be written is dropped.
void complain(std::string_view message) noexcept;
/// The same as `{"error":{"code":CODE,"message":MESSAGE}}`.
void complain_json(std::string_view code, std::string_view message) noexcept;
/// Any object, one line on stderr: what is to be told while stdout is a command's.
void tell_json(const nlohmann::ordered_json& object) noexcept;

/// One result on stdout, one line. Throws Error(Internal) if it cannot be written: whoever asked must not
/// believe that there was nothing to say.
void print_json(const nlohmann::ordered_json& object);
/// The same for JSON that is somebody else's.
void print_json_text(const Json& value);
/// The same over several lines, indented. Still JSON, and fit for a terminal.
void print_json_for_people(const Json& value);
/// One line, printable.
void print_text(std::string_view text);
/// `name  value` lines, values aligned.
void print_fields(const std::vector<std::pair<std::string, std::string>>& fields);
/// A table: the first row is its head.
void print_table(const std::vector<std::vector<std::string>>& rows);

/// A table of any length: rows are printed some hundred at a time, so columns may become wider on the way.
class LongTable {
 public:
  explicit LongTable(std::vector<std::string> head);
  void add(std::vector<std::string> row);
  /// Prints what is left. False if there was no row; then there is no head either.
  bool finish();

 private:
  void print();
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
  bool empty_ = true;
};

/// The fields of SPEC's sanitised info, and no others; but `fenceDigits` where a fence is stored with other
/// than 15.
[[nodiscard]] nlohmann::ordered_json to_json(const LockInfo& info);

/// 2026-01-31T23:59:59.123Z
[[nodiscard]] std::string iso_time(std::int64_t ms_since_epoch);
/// How long until then by this machine's wall clock; never negative.
[[nodiscard]] std::chrono::milliseconds time_until(std::int64_t ms_since_epoch);

}  // namespace holdfast::cli
