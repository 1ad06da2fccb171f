#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli::top {

/// What a piece of text means; a terminal turns it into colours and weight.
enum class Style : std::uint8_t { plain, strong, dim, heading, accent, good, warn, bad };

/// Text of one style. Safe for a terminal: no control characters.
struct Span {
  std::string text;
  Style style = Style::plain;
  friend bool operator==(const Span&, const Span&) = default;
};

/// Returns how many columns of a terminal a code point takes: 0, 1 or 2.
[[nodiscard]] std::size_t columns_of(std::int32_t code_point) noexcept;
/// Returns how many columns a UTF-8 text takes.
[[nodiscard]] std::size_t columns_of(std::string_view text) noexcept;
/// Returns the text in a form that is safe for a terminal, as printable(), and without long runs of combining
/// characters.
[[nodiscard]] std::string safe(std::string_view text);
/// Cuts safe text to so many columns, with `ending` at its end if it was longer (and if that fits).
[[nodiscard]] std::string cut(std::string_view text, std::size_t columns, std::string_view ending);
/// Splits safe text into lines of so many columns (at least 2).
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

/// One line of the screen, filled from the left. Never wider than its limit.
class Line {
 public:
  explicit Line(std::size_t limit) noexcept : limit_(limit) {}
  /// Adds safe text, cut to what fits.
  Line& add(std::string_view text, Style style = Style::plain);
  /// Adds spaces up to this column; nothing if the line is longer already.
  Line& to(std::size_t column);
  /// Adds safe text so that it ends at the limit, after at least one space; nothing if there is no room.
  Line& right(std::string_view text, Style style = Style::plain);
  /// The whole line is marked, as the selected one of a table.
  Line& select() noexcept;

  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  [[nodiscard]] const std::vector<Span>& spans() const noexcept { return spans_; }
  [[nodiscard]] bool selected() const noexcept { return selected_; }
  /// Without styles and without spaces at its end.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Line&, const Line&) = default;

 private:
  std::size_t limit_;
  std::size_t columns_ = 0;
  std::vector<Span> spans_;
  bool selected_ = false;
};

}  // namespace holdfast::cli::top
