#include "tasks/compact_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>

namespace holdfast::tasks {
namespace {

/// The code point of the `\uXXXX` at the front, which is taken off, and of its second half where it has one.
std::uint32_t take_unicode_escape(std::string_view& text) {
  const auto take_unit = [&text] {
    std::uint32_t unit = 0;
    std::from_chars(text.data() + 2, text.data() + 6, unit, 16);
    text.remove_prefix(6);
    return unit;
  };
  const auto first = take_unit();
  const bool is_pair = first >= 0xD800 && first < 0xDC00 && text.starts_with("\\u");
  return is_pair ? 0x10000 + ((first - 0xD800) << 10) + (take_unit() - 0xDC00) : first;
}

std::string utf8(std::uint32_t point) {
  const auto tail = [point](unsigned shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0 | (point >> 6)), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0 | (point >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (point >> 18)), tail(12), tail(6), tail(0)};
}

/// As it has to be written in a string, for a code point that was written as an escape.
std::string spelled(std::uint32_t point) {
  constexpr std::string_view escaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  const auto at = point < 0x80 ? escaped.find(static_cast<char>(point)) : std::string_view::npos;
  if (at != std::string_view::npos) return {'\\', letters[at]};
  if (point >= 0x20) return utf8(point);
  std::array<char, 7> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(point));
  return escape.data();
}

/// Calls `outside(c)` for each character that is in no string and no space; and for each part of a string,
/// its quotes included, `inside(text, bytes)`: how it is written compactly, and of how many bytes of text it
/// stands.
template <class Outside, class Inside>
void walk(std::string_view json, Outside outside, Inside inside) {
  constexpr std::string_view blanks = " \t\r\n";
  bool in_string = false;
  while (!json.empty()) {
    const char c = json.front();
    if (!in_string && c != '"') {
      if (blanks.find(c) == std::string_view::npos) outside(c);
      json.remove_prefix(1);
    } else if (c == '"') {
      inside(json.substr(0, 1), std::size_t{0});
      in_string = !in_string;
      json.remove_prefix(1);
    } else if (c != '\\') {
      const auto plain = json.substr(0, json.find_first_of("\"\\"));
      inside(plain, plain.size());
      json.remove_prefix(plain.size());
    } else if (json[1] == 'u') {
      const auto point = take_unicode_escape(json);
      const auto text = spelled(point);
      inside(std::string_view(text), utf8(point).size());
    } else {
      inside(json[1] == '/' ? json.substr(1, 1) : json.substr(0, 2), std::size_t{1});
      json.remove_prefix(2);
    }
  }
}

}  // namespace

std::string compact(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  walk(
      json, [&text](char c) { text += c; },
      [&text](std::string_view part, std::size_t) { text.append(part); });
  return text;
}

std::size_t compact_bytes(std::string_view json) {
  std::size_t bytes = 0;
  walk(
      json, [&bytes](char) { ++bytes; },
      [&bytes](std::string_view part, std::size_t) { bytes += part.size(); });
  return bytes;
}

std::size_t longest_string_bytes(std::string_view json) {
  std::size_t longest = 0;
  std::size_t bytes = 0;
  walk(
      json, [&bytes](char) { bytes = 0; },
      [&](std::string_view, std::size_t added) {
        bytes += added;
        longest = std::max(longest, bytes);
      });
  return longest;
}

}  // namespace holdfast::tasks
