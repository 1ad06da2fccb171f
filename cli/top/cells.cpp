#include "top/cells.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <holdfast/printable.hpp>

namespace holdfast::cli::top {
namespace {

/// The first code point of a text and its length in bytes; a byte that is not UTF-8 counts as U+FFFD.
struct CodePoint {
  std::int32_t value;
  std::size_t bytes;
};

CodePoint first_of(std::string_view text) noexcept {
  utf8proc_int32_t value = 0;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &value);
  if (bytes <= 0) return {.value = 0xFFFD, .bytes = 1};
  return {.value = value, .bytes = static_cast<std::size_t>(bytes)};
}

/// How many bytes fit into so many columns, and how many columns these take.
struct Fitting {
  std::size_t bytes = 0;
  std::size_t columns = 0;
};

Fitting fitting(std::string_view text, std::size_t columns) noexcept {
  Fitting fits;
  while (fits.bytes < text.size()) {
    const auto [value, bytes] = first_of(text.substr(fits.bytes));
    const auto wide = columns_of(value);
    if (fits.columns + wide > columns) break;
    fits.bytes += bytes;
    fits.columns += wide;
  }
  return fits;
}

}  // namespace

std::size_t columns_of(std::int32_t code_point) noexcept {
  if (code_point < 0x7F) return 1;
  return static_cast<std::size_t>(std::max(0, utf8proc_charwidth(code_point)));
}

std::size_t columns_of(std::string_view text) noexcept {
  return fitting(text, text.size() * 2).columns;
}

std::string safe(std::string_view text) {
  constexpr int most_marks = 3;
  const auto escaped = printable(text);
  std::string out;
  out.reserve(escaped.size());
  int marks = most_marks;  // one at the front would join what stands before the text
  for (std::string_view rest = escaped; !rest.empty();) {
    const auto [value, bytes] = first_of(rest);
    marks = columns_of(value) == 0 ? marks + 1 : 0;
    if (marks <= most_marks) out += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  return out;
}

std::string cut(std::string_view text, std::size_t columns, std::string_view ending) {
  const auto whole = fitting(text, columns);
  if (whole.bytes == text.size()) return std::string(text);
  const auto of_ending = columns_of(ending);
  if (of_ending >= columns) return std::string(text.substr(0, whole.bytes));
  return std::string(text.substr(0, fitting(text, columns - of_ending).bytes)).append(ending);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  do {
    auto bytes = fitting(text, std::max<std::size_t>(columns, 2)).bytes;
    if (bytes < text.size()) {
      // At a space, if one is near.
      const auto space = text.substr(0, bytes + 1).rfind(' ');
      if (space != std::string_view::npos && space > bytes / 2) bytes = space;
    }
    lines.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  } while (!text.empty());
  return lines;
}

Line& Line::add(std::string_view text, Style style) {
  const auto fits = fitting(text, limit_ - columns_);
  if (fits.bytes == 0) return *this;
  if (!spans_.empty() && spans_.back().style == style) {
    spans_.back().text += text.substr(0, fits.bytes);
  } else {
    spans_.push_back({.text = std::string(text.substr(0, fits.bytes)), .style = style});
  }
  columns_ += fits.columns;
  return *this;
}

Line& Line::to(std::size_t column) {
  column = std::min(column, limit_);
  return column > columns_ ? add(std::string(column - columns_, ' ')) : *this;
}

Line& Line::right(std::string_view text, Style style) {
  const auto wide = columns_of(text);
  if (wide + columns_ + 1 > limit_) return *this;
  return to(limit_ - wide).add(text, style);
}

Line& Line::select() noexcept {
  selected_ = true;
  return *this;
}

std::string Line::text() const {
  std::string all;
  for (const auto& span : spans_) all += span.text;
  const auto end = all.find_last_not_of(' ');
  all.resize(end == std::string::npos ? 0 : end + 1);
  return all;
}

}  // namespace holdfast::cli::top
