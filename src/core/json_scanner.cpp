#include "core/json_scanner.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "core/utf8.hpp"

namespace holdfast::core {
namespace {

constexpr bool is_json_space(char c) noexcept {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Whether a byte of a string stands for itself: ASCII without controls, quotes and backslashes.
constexpr auto is_plain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

// The characters that have an escape of two letters, and the second of these.
constexpr std::string_view short_escaped = "\"\\\b\f\n\r\t";
constexpr std::string_view short_letters = "\"\\bfnrt";

/// The code unit that four hexadecimal digits encode; empty if they are not hexadecimal.
std::optional<std::uint32_t> code_unit(std::string_view digits) {
  constexpr std::size_t length = 4;
  std::uint32_t unit = 0;
  if (digits.size() < length) return std::nullopt;
  digits = digits.substr(0, length);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
  if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return unit;
}

struct Escape {
  std::uint32_t point = 0;
  std::size_t length = 0;  ///< as written; 0: not a valid escape
};
/// Decodes the escape at the front of a string's content.
Escape escape_at(std::string_view text) {
  if (text.size() < 2) return {};
  if (text[1] == '/') return {'/', 2};
  if (const auto letter = short_letters.find(text[1]); letter != std::string_view::npos) {
    return {static_cast<std::uint32_t>(short_escaped[letter]), 2};
  }
  const auto first = text[1] == 'u' ? code_unit(text.substr(2)) : std::nullopt;
  if (!first || (*first >= 0xDC00 && *first < 0xE000)) return {};
  if (*first < 0xD800 || *first >= 0xE000) return {*first, 6};
  const auto second = text.substr(6).starts_with("\\u") ? code_unit(text.substr(8)) : std::nullopt;
  if (!second || *second < 0xDC00 || *second >= 0xE000) return {};
  return {0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00), 12};
}

std::size_t utf8_bytes(std::uint32_t point) noexcept {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto tail = [point](unsigned shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
  switch (utf8_bytes(point)) {
    case 1:
      text += static_cast<char>(point);
      return;
    case 2:
      text += {static_cast<char>(0xC0 | (point >> 6)), tail(0)};
      return;
    case 3:
      text += {static_cast<char>(0xE0 | (point >> 12)), tail(6), tail(0)};
      return;
    default:
      text += {static_cast<char>(0xF0 | (point >> 18)), tail(12), tail(6), tail(0)};
  }
}

/// Bytes that a code point needs in a JSON string.
std::size_t spelled_bytes(std::uint32_t point) noexcept {
  if (point >= 0x80) return utf8_bytes(point);
  if (short_escaped.find(static_cast<char>(point)) != std::string_view::npos) return 2;
  return point < 0x20 ? 6 : 1;
}

/// Whether a grammatical number exceeds the largest double.
bool is_beyond_double(std::string_view number) {
  // value = 0.d1d2d3… times ten to the power of `exponent`, d1 not 0
  constexpr std::int64_t surely_fits = std::numeric_limits<double>::max_exponent10;        // below 1e308
  constexpr std::int64_t surely_beyond = std::numeric_limits<double>::max_exponent10 + 2;  // 1e309 and up
  const auto mantissa = number.substr(0, number.find_first_of("eE"));
  if (mantissa.size() == number.size() && number.size() <= static_cast<std::size_t>(surely_fits))
    return false;
  const auto first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  const auto point = std::min(mantissa.find('.'), mantissa.size());
  auto exponent =
      static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) + (first > point ? 1 : 0);
  if (mantissa.size() < number.size()) {
    auto digits = number.substr(mantissa.size() + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::int32_t written = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), written).ec != std::errc()) {
      return !digits.starts_with('-');
    }
    exponent += written;
  }
  if (exponent <= surely_fits) return false;
  if (exponent >= surely_beyond) return true;
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  return read.ec != std::errc() || !(std::abs(value) <= std::numeric_limits<double>::max());
}

}  // namespace

JsonToken JsonScanner::next() {
  if (token_ == JsonToken::error) return token_;
  skip_space();
  if (expect_ == Expect::comma_or_end && peek() == ',') {
    take_separator();
    expect_ = open_.back() ? Expect::name : Expect::value;
  } else if (expect_ == Expect::colon && peek() == ':') {
    take_separator();
    expect_ = Expect::value;
  }
  start_ = at_;
  has_escapes_ = false;
  const char c = peek();
  switch (expect_) {
    case Expect::end:
      return at_ == json_.size() ? finished(JsonToken::end, 0) : refuse("unexpected text after the value");
    case Expect::comma_or_end:
      if (c == (open_.back() ? '}' : ']')) return close();
      return refuse(open_.back() ? "expected a comma or }" : "expected a comma or ]");
    case Expect::colon:
      return refuse("expected a colon");
    case Expect::name_or_end:
      if (c == '}') return close();
      [[fallthrough]];
    case Expect::name:
      return c == '"' ? string(JsonToken::name) : refuse("expected a name in double quotes");
    case Expect::value_or_end:
      if (c == ']') return close();
      break;
    case Expect::value:
      break;
  }
  switch (c) {
    case '{':
    case '[':
      return open(c == '{');
    case '"':
      return string(JsonToken::string);
    case 't':
      return word("true", JsonToken::boolean);
    case 'f':
      return word("false", JsonToken::boolean);
    case 'n':
      return word("null", JsonToken::null);
    default:
      return number();
  }
}

JsonToken JsonScanner::refuse(const char* problem) {
  problem_ = problem;
  return token_ = JsonToken::error;
}

JsonToken JsonScanner::finished(JsonToken token, std::size_t compact_bytes) {
  token_bytes_ = compact_bytes;
  compact_bytes_ += compact_bytes;
  switch (token) {
    case JsonToken::object:
      expect_ = Expect::name_or_end;
      break;
    case JsonToken::array:
      expect_ = Expect::value_or_end;
      break;
    case JsonToken::name:
      expect_ = Expect::colon;
      break;
    default:
      expect_ = open_.empty() ? Expect::end : Expect::comma_or_end;
  }
  return token_ = token;
}

JsonToken JsonScanner::open(bool is_object) {
  open_.push_back(is_object);
  ++at_;
  return finished(is_object ? JsonToken::object : JsonToken::array, 1);
}

JsonToken JsonScanner::close() {
  const bool is_object = open_.back();
  open_.pop_back();
  ++at_;
  return finished(is_object ? JsonToken::end_object : JsonToken::end_array, 1);
}

JsonToken JsonScanner::word(std::string_view word, JsonToken token) {
  for (const char c : word) {
    if (peek() != c) return refuse("expected a value");
    ++at_;
  }
  return finished(token, word.size());
}

JsonToken JsonScanner::number() {
  if (peek() == '-') ++at_;
  if (!is_digit(peek())) return refuse(at_ == start_ ? "expected a value" : "expected a digit");
  if (peek() == '0') {
    ++at_;  // alone before the point
  } else {
    skip_digits();
  }
  if (peek() == '.') {
    ++at_;
    if (!is_digit(peek())) return refuse("expected a digit after the point");
    skip_digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    if (!is_digit(peek())) return refuse("expected a digit in the exponent");
    skip_digits();
  }
  is_huge_number_ = is_beyond_double(literal());
  if (is_huge_number_) return refuse("the number is beyond the range of a double");
  return finished(JsonToken::number, at_ - start_);
}

JsonToken JsonScanner::string(JsonToken token) {
  text_bytes_ = 0;
  std::size_t needed_escapes = 0;  // bytes that required escapes add to the text
  ++at_;
  for (;;) {
    const auto run = at_;
    while (at_ < json_.size() && is_plain[static_cast<unsigned char>(json_[at_])]) ++at_;
    text_bytes_ += at_ - run;
    if (at_ == json_.size()) return refuse("unterminated string");
    const char c = json_[at_];
    if (c == '"') break;
    if (c == '\\') {
      has_escapes_ = true;
      const auto escape = escape_at(json_.substr(at_));
      if (escape.length == 0) return refuse("invalid escape, or half of a surrogate pair");
      at_ += escape.length;
      const auto bytes = utf8_bytes(escape.point);
      text_bytes_ += bytes;
      needed_escapes += spelled_bytes(escape.point) - bytes;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      return refuse("a control character in a string must be escaped");
    } else {
      const auto bytes = code_point_bytes(json_.substr(at_));
      if (bytes == 0) return refuse("the text is not UTF-8");
      at_ += bytes;
      text_bytes_ += bytes;
    }
  }
  ++at_;
  return finished(token, text_bytes_ + needed_escapes + 2);
}

void JsonScanner::take_separator() noexcept {
  ++at_;
  ++compact_bytes_;
  skip_space();
}

void JsonScanner::skip_space() noexcept {
  while (at_ < json_.size() && is_json_space(json_[at_])) ++at_;
}

void JsonScanner::skip_digits() noexcept {
  while (is_digit(peek())) ++at_;
}

std::string JsonScanner::text() const {
  return has_escapes_ ? unescaped(literal()) : std::string(literal().substr(1, text_bytes_));
}

JsonValue JsonScanner::take_value() {
  next();
  return finish_value();
}

JsonValue JsonScanner::finish_value() {
  const auto start = start_;
  const auto bytes_before = compact_bytes_ - token_bytes_;
  const bool is_container = token_ == JsonToken::object || token_ == JsonToken::array;
  const auto depth = open_.size() - (is_container ? 1 : 0);
  JsonMeasure measure;
  for (;;) {
    measure.nesting = std::max(measure.nesting, open_.size() - depth);
    if (token_ == JsonToken::string || token_ == JsonToken::name) {
      measure.longest_string = std::max(measure.longest_string, text_bytes_);
    }
    if (open_.size() == depth || token_ == JsonToken::error) break;
    next();
  }
  measure.compact_bytes = compact_bytes_ - bytes_before;
  return {.text = json_.substr(start, at_ - start), .measure = measure};
}

JsonMeasure measure(std::string_view json) {
  return JsonScanner(json).take_value().measure;
}

void append_json_string(std::string& json, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  json += '"';
  while (!text.empty()) {
    const auto special = std::ranges::find_if(
        text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; });
    const auto plain = static_cast<std::size_t>(special - text.begin());
    json += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const char c = text.front();
    json += '\\';
    if (const auto letter = short_escaped.find(c); letter != std::string_view::npos) {
      json += short_letters[letter];
    } else {
      json.append("u00").append(1, digits[static_cast<unsigned>(c) >> 4]).append(1, digits[c & 0xF]);
    }
    text.remove_prefix(1);
  }
  json += '"';
}

std::string json_string(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

std::string unescaped(std::string_view json_string) {
  auto rest = json_string.substr(1, json_string.size() - 2);
  std::string text;
  text.reserve(rest.size());
  while (!rest.empty()) {
    const auto plain = rest.substr(0, rest.find('\\'));
    text += plain;
    rest.remove_prefix(plain.size());
    if (rest.empty()) break;
    const auto escape = escape_at(rest);
    append_utf8(text, escape.point);
    rest.remove_prefix(std::max<std::size_t>(escape.length, 1));
  }
  return text;
}

double nearest_double(std::string_view number) noexcept {
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  if (read.ec == std::errc()) return value;
  return number.starts_with('-') ? -0.0 : 0.0;
}

}  // namespace holdfast::core
