#include "rpc/protocol/params.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "rpc/json/text.hpp"
#include "rpc/protocol/message.hpp"

namespace holdfast::rpc {
namespace {

bool is_number(std::string_view json) noexcept {
  return json.front() == '-' || (json.front() >= '0' && json.front() <= '9');
}

/// A number without a fraction, however it is written (30000, 3e4, 30000.0), as far as a double is exact.
enum class Beyond : std::uint8_t { refused, clamped };
std::optional<std::uint64_t> whole_number(std::string_view json, Beyond beyond = Beyond::refused) {
  constexpr double largest = 9007199254740991.0;
  if (!is_number(json)) return std::nullopt;
  auto number = nlohmann::json::parse(json).get<double>();
  if (beyond == Beyond::clamped) number = std::min(number, largest);
  const bool in_range = number >= 0 && number <= largest;
  if (!in_range || std::floor(number) != number) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

/// The same, and below zero.
std::optional<std::int64_t> integer_of(std::string_view json) {
  const bool is_negative = json.starts_with('-');
  const auto value = whole_number(is_negative ? json.substr(1) : json);
  if (!value) return std::nullopt;
  const auto magnitude = static_cast<std::int64_t>(*value);
  return is_negative ? -magnitude : magnitude;
}

/// Empty if it is not an array of strings.
std::optional<std::vector<std::string>> texts_of(std::string_view json) {
  if (json.front() != '[') return std::nullopt;
  std::vector<std::string> texts;
  const auto array = Json::unchecked(std::string(json));
  for (const auto& element : elements_of(array)) {
    auto text = string_in(element);
    if (!text) return std::nullopt;
    texts.push_back(*std::move(text));
  }
  return texts;
}

/// As every answer writes it. No grant has the fence 0.
std::optional<Fence> fence_of(std::string_view json) {
  const auto digits = string_in(json);
  const auto fence = digits ? Fence::parse(*digits) : Result<Fence>(Fence());
  return fence && *fence != Fence() ? std::optional(*fence) : std::nullopt;
}

/// What a value of each kind must be. The schema is what clients should send; `fits` accepts more spellings.
struct KindRule {
  std::string_view description;
  std::string_view schema;
  bool (*fits)(std::string_view json);
};
constexpr std::string_view natural_number = R"({"type":"integer","minimum":0,"maximum":9007199254740991})";
constexpr KindRule rule_of(Kind kind) {
  switch (kind) {
    case Kind::text:
      return {"a string", R"({"type":"string"})", is_string};
    case Kind::milliseconds:
      return {"a whole number of milliseconds, not negative", natural_number,
              [](std::string_view json) { return whole_number(json).has_value(); }};
    case Kind::wait:
      return {"a whole number of milliseconds, not negative", natural_number,
              [](std::string_view json) { return whole_number(json, Beyond::clamped).has_value(); }};
    case Kind::count:
      return {"a whole number, not negative", natural_number,
              [](std::string_view json) { return whole_number(json).has_value(); }};
    case Kind::integer:
      return {"a whole number", R"({"type":"integer"})",
              [](std::string_view json) { return integer_of(json).has_value(); }};
    case Kind::fence:
      return {"a fence: a string of 15 digits, not all zero", R"({"type":"string","pattern":"^[0-9]{15}$"})",
              [](std::string_view json) { return fence_of(json).has_value(); }};
    case Kind::id:
      return {"the id of a request: a string or a number", R"({"type":["string","number"]})",
              [](std::string_view json) { return is_string(json) || is_number(json); }};
    case Kind::boolean:
      return {"true or false", R"({"type":"boolean"})",
              [](std::string_view json) { return json == "true" || json == "false"; }};
    case Kind::object:
      return {"an object", R"({"type":"object"})", [](std::string_view json) { return json.front() == '{'; }};
    case Kind::texts:
      return {"an array of strings", R"({"type":"array","items":{"type":"string"}})",
              [](std::string_view json) { return texts_of(json).has_value(); }};
    case Kind::any:
      break;
  }
  return {"a JSON value", "{}", [](std::string_view) { return true; }};
}

/// Whether null counts as absent.
bool null_is_absent(const Parameter& parameter) noexcept {
  return parameter.kind != Kind::any || parameter.need == Need::optional;
}

std::string names_of(std::span<const Parameter> parameters) {
  std::string names;
  for (const auto& parameter : parameters) {
    if (!names.empty()) names += ", ";
    names += parameter.name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace

std::string_view describe(Kind kind) noexcept {
  return rule_of(kind).description;
}

std::string_view schema_of(Kind kind) noexcept {
  return rule_of(kind).schema;
}

Params::Params(const Json& given, std::span<const Parameter> expected) {
  if (!given.is_object()) throw bad_params("params: must be an object; parameters are passed by name");
  for (const auto& [name, json] : members_of(given)) {
    const auto parameter = std::ranges::find(expected, name, &Parameter::name);
    if (parameter == expected.end()) {
      constexpr std::size_t enough = 100;
      throw bad_params("unknown parameter " + name.substr(0, enough) +
                       "; this method has: " + names_of(expected));
    }
    const bool absent = json == "null" && null_is_absent(*parameter);
    if (!absent && !rule_of(parameter->kind).fits(json)) {
      throw bad_params(name + ": must be " + std::string(describe(parameter->kind)));
    }
    if (!values_.emplace(name, json).second) throw bad_params(name + ": is given twice");
  }
  for (const auto& parameter : expected) {
    const auto found = values_.find(parameter.name);
    if (found != values_.end() && found->second == "null" && null_is_absent(parameter)) values_.erase(found);
    if (parameter.need == Need::required && !has(parameter.name)) {
      throw bad_params(std::string(parameter.name) + ": is missing; it must be " +
                       std::string(describe(parameter.kind)));
    }
  }
}

const std::string& Params::value(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::logic_error("no parameter " + std::string(name));
  return found->second;
}

std::string Params::text(std::string_view name) const {
  return string_in(value(name)).value();
}

std::chrono::milliseconds Params::milliseconds(std::string_view name) const {
  // Clamped: 285 000 years are enough.
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(whole_number(value(name), Beyond::clamped).value()));
}

std::uint64_t Params::count(std::string_view name) const {
  return whole_number(value(name)).value();
}

std::int64_t Params::integer(std::string_view name) const {
  return integer_of(value(name)).value();
}

bool Params::boolean(std::string_view name) const {
  return value(name) == "true";
}

std::vector<std::string> Params::texts(std::string_view name) const {
  return texts_of(value(name)).value();
}

Fence Params::fence(std::string_view name) const {
  return fence_of(value(name)).value();
}

Json Params::json(std::string_view name) const {
  return Json::unchecked(value(name));
}

}  // namespace holdfast::rpc
