#include "tasks/json_forms.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/json_scanner.hpp"

namespace holdfast::tasks {
namespace {

using core::JsonScanner;
using core::JsonToken;

/// A number's exact value: digits times ten to the exponent, without zeros at either end of the digits.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

/// The value of a JSON number; empty if its exponent overflows.
std::optional<Decimal> decimal_of(std::string_view number) {
  Decimal value{.negative = number.starts_with('-'), .digits = {}};
  if (value.negative) number.remove_prefix(1);
  const auto mantissa = number.substr(0, number.find_first_of("eE"));
  if (mantissa.size() < number.size()) {
    auto text = number.substr(mantissa.size() + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    std::int32_t exponent = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), exponent).ec != std::errc())
      return std::nullopt;
    value.exponent = exponent;
  }
  const auto point = mantissa.find('.');
  value.digits = mantissa.substr(0, point);
  if (point != std::string_view::npos) {
    const auto fraction = mantissa.substr(point + 1);
    value.digits += fraction;
    value.exponent -= static_cast<std::int64_t>(fraction.size());
  }
  value.digits.erase(0, value.digits.find_first_not_of('0'));
  const auto kept = value.digits.find_last_not_of('0') + 1;
  value.exponent += static_cast<std::int64_t>(value.digits.size() - kept);
  value.digits.resize(kept);
  if (value.digits.empty()) value.exponent = 0;
  return value;
}

bool is_of_64_bits(std::string_view integer) {
  const auto fits = [integer](auto value) {
    // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): its end is the next argument
    const auto read = std::from_chars(integer.data(), integer.data() + integer.size(), value);
    return read.ec == std::errc() && read.ptr == integer.data() + integer.size();
  };
  return fits(std::int64_t{}) || fits(std::uint64_t{});
}

/// If a double is exact, as the JSON library writes it, because existing digests were made so; else the exact
/// value.
std::string canonical_number(std::string_view literal) {
  if (literal == "-0") return "0";
  if (is_of_64_bits(literal)) return std::string(literal);
  const auto exact = decimal_of(literal);
  if (!exact) return std::string(literal);
  auto written = nlohmann::json(core::nearest_double(literal)).dump();
  if (decimal_of(written) == exact) return written;
  return (exact->negative ? "-" : "") + exact->digits + 'e' + std::to_string(exact->exponent);
}

/// Appends the token in compact form.
void append_compact(std::string& out, const JsonScanner& scanner) {
  if (scanner.has_escapes()) {
    core::append_json_string(out, scanner.text());
  } else {
    out += scanner.literal();
  }
}

/// Calls `write(scanner)` for each token, and writes the commas and colons.
template <class Write>
void write_tokens(std::string& out, std::string_view json, Write write) {
  JsonScanner scanner(json);
  bool after_value = false;
  for (auto token = scanner.next(); token != JsonToken::end && token != JsonToken::error;
       token = scanner.next()) {
    const bool closes = token == JsonToken::end_object || token == JsonToken::end_array;
    if (after_value && !closes) out += ',';
    write(scanner);
    if (token == JsonToken::name) out += ':';
    after_value = closes || token < JsonToken::name;
  }
}

/// An object that is being written: where it begins, and its members, each from its name to the next comma.
struct OpenObject {
  struct Member {
    std::string name;
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::size_t begin = 0;
  std::vector<Member> members = {};
};

/// Sorts the members of the object at the end of `out`, which lacks its last bracket.
void sort_members(std::string& out, OpenObject object) {
  auto& members = object.members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i].end = i + 1 < members.size() ? members[i + 1].begin - 1 : out.size();
  }
  const auto name = &OpenObject::Member::name;
  if (std::ranges::adjacent_find(members, std::greater_equal(), name) == members.end()) return;
  // Equal names keep their order. (Not std::stable_sort: that of libstdc++ 12 does not compile under clang 19
  // without a warning.)
  std::ranges::sort(members, [](const OpenObject::Member& a, const OpenObject::Member& b) {
    const auto order = a.name <=> b.name;
    return order != 0 ? order < 0 : a.begin < b.begin;
  });
  std::string sorted = "{";
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i + 1 < members.size() && members[i + 1].name == members[i].name) continue;
    if (sorted.size() > 1) sorted += ',';
    sorted.append(out, members[i].begin, members[i].end - members[i].begin);
  }
  out.replace(object.begin, std::string::npos, sorted);
}

}  // namespace

std::string compact(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  write_tokens(out, json, [&out](const JsonScanner& scanner) { append_compact(out, scanner); });
  return out;
}

std::string canonical(std::string_view json) {
  std::string out;
  std::vector<OpenObject> open;
  write_tokens(out, json, [&](const JsonScanner& scanner) {
    switch (scanner.token()) {
      case JsonToken::object:
        open.push_back({.begin = out.size()});
        break;
      case JsonToken::name:
        open.back().members.push_back({.name = scanner.text(), .begin = out.size()});
        break;
      case JsonToken::number:
        out += canonical_number(scanner.literal());
        return;
      case JsonToken::end_object:
        sort_members(out, std::move(open.back()));
        open.pop_back();
        break;
      default:
        break;
    }
    append_compact(out, scanner);
  });
  return out;
}

}  // namespace holdfast::tasks
