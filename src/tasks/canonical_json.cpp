#include "tasks/canonical_json.hpp"

#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tasks/members.hpp"

namespace holdfast::tasks {
namespace {

/// A number's exact value: digits times ten to the exponent, without zeros at either end of the digits.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

/// Of a JSON number; nothing if its exponent is beyond counting.
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

/// `as_double` is what the parser made of it. Where that is exact, it is written as the parser writes it,
/// which is how digests were made from the beginning; else by its exact value.
std::string canonical_number(double as_double, const std::string& literal) {
  auto written = nlohmann::json(as_double).dump();
  const auto exact = decimal_of(literal);
  if (!exact) return literal;
  if (decimal_of(written) == exact) return written;
  return (exact->negative ? "-" : "") + exact->digits + 'e' + std::to_string(exact->exponent);
}

class CanonicalWriter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  [[nodiscard]] std::string text() && { return std::move(text_); }

  bool null() override { return put("null"); }
  bool boolean(bool value) override { return put(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return put(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(std::to_string(value)); }
  bool number_float(number_float_t value, const string_t& literal) override {
    return put(canonical_number(value, literal));
  }
  bool string(string_t& value) override { return put(json_string(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool key(string_t& name) override {
    open_.back().name = name;
    return true;
  }
  bool end_object() override {
    std::string text = "{";
    for (const auto& [name, value] : open_.back().members) {
      if (text.size() > 1) text += ',';
      text += json_string(name);
      text += ':';
      text += value;
    }
    return close(text + '}');
  }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override { return close('[' + open_.back().elements + ']'); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  struct Container {
    bool is_object = false;
    std::string name = {};  ///< of the member whose value comes next
    std::map<std::string, std::string> members = {};
    std::string elements = {};
  };

  bool open(bool is_object) {
    open_.push_back({.is_object = is_object});
    return true;
  }
  bool close(std::string text) {
    open_.pop_back();
    return put(std::move(text));
  }
  bool put(std::string value) {
    if (open_.empty()) {
      text_ = std::move(value);
    } else if (auto& container = open_.back(); container.is_object) {
      container.members[container.name] = std::move(value);
    } else {
      if (!container.elements.empty()) container.elements += ',';
      container.elements += value;
    }
    return true;
  }

  std::vector<Container> open_;
  std::string text_;
};

}  // namespace

std::string canonical(std::string_view json) {
  CanonicalWriter writer;
  nlohmann::json::sax_parse(json, &writer);
  return std::move(writer).text();
}

}  // namespace holdfast::tasks
