#include "rpc/protocol/params.hpp"

#include <algorithm>
#include <charconv>
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

std::optional<Fence> fence_of(std::string_view json) {
  std::optional<std::uint64_t> value;
  if (const auto digits = string_in(json)) {
    const auto* const end = digits->data() + digits->size();
    std::uint64_t parsed = 0;
    const auto [stopped_at, error] = std::from_chars(digits->data(), end, parsed);
    if (error == std::errc{} && stopped_at == end) value = parsed;
  } else {
    value = whole_number(json);
  }
  if (!value) return std::nullopt;
  const auto fence = Fence::of(*value);
  return fence ? std::optional(*fence) : std::nullopt;
}

/// What a value of each kind must be.
struct KindRule {
  std::string_view description;
  bool (*fits)(std::string_view json);
};
constexpr KindRule rule_of(Kind kind) {
  switch (kind) {
    case Kind::text:
      return {"a string", is_string};
    case Kind::milliseconds:
      return {"a whole number of milliseconds, not negative",
              [](std::string_view json) { return whole_number(json).has_value(); }};
    case Kind::wait:
      return {"a whole number of milliseconds, not negative",
              [](std::string_view json) { return whole_number(json, Beyond::clamped).has_value(); }};
    case Kind::count:
      return {"a whole number, not negative",
              [](std::string_view json) { return whole_number(json).has_value(); }};
    case Kind::fence:
      return {"a fence: its 15 digits as a string",
              [](std::string_view json) { return fence_of(json).has_value(); }};
    case Kind::id:
      return {"the id of a request: a string or a number",
              [](std::string_view json) { return is_string(json) || is_number(json); }};
    case Kind::object:
      return {"an object", [](std::string_view json) { return json.front() == '{'; }};
    case Kind::any:
      break;
  }
  return {"a JSON value", [](std::string_view) { return true; }};
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

Fence Params::fence(std::string_view name) const {
  return fence_of(value(name)).value();
}

Json Params::json(std::string_view name) const {
  return Json::unchecked(value(name));
}

}  // namespace holdfast::rpc
