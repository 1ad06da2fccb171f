#include "rpc/params.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "json_text.hpp"
#include "rpc/failure.hpp"

namespace holdfast::cli::rpc {
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

std::string text_of(std::string_view json) {
  return nlohmann::json::parse(json).get<std::string>();
}

std::optional<Fence> fence_of(std::string_view json) {
  std::optional<std::uint64_t> value;
  if (json.front() == '"') {
    const auto digits = text_of(json);
    const auto* const end = digits.data() + digits.size();
    std::uint64_t parsed = 0;
    const auto [stopped_at, error] = std::from_chars(digits.data(), end, parsed);
    if (error == std::errc{} && stopped_at == end) value = parsed;
  } else {
    value = whole_number(json);
  }
  if (!value) return std::nullopt;
  const auto fence = Fence::of(*value);
  return fence ? std::optional(*fence) : std::nullopt;
}

bool fits(Kind kind, std::string_view json) {
  switch (kind) {
    case Kind::text:
      return json.front() == '"';
    case Kind::wait:
      return whole_number(json, Beyond::clamped).has_value();
    case Kind::milliseconds:
    case Kind::count:
      return whole_number(json).has_value();
    case Kind::fence:
      return fence_of(json).has_value();
    case Kind::id:
      return json.front() == '"' || is_number(json);
    case Kind::object:
      return json.front() == '{';
    case Kind::any:
      return true;
  }
  return false;
}

/// Whether null is as good as nothing.
bool null_is_none(const Parameter& parameter) noexcept {
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
  switch (kind) {
    case Kind::text:
      return "a string";
    case Kind::milliseconds:
    case Kind::wait:
      return "a whole number of milliseconds, not negative";
    case Kind::count:
      return "a whole number, not negative";
    case Kind::fence:
      return "a fence: its 15 digits as a string";
    case Kind::id:
      return "the id of a request: a string or a number";
    case Kind::object:
      return "an object";
    case Kind::any:
      return "a JSON value";
  }
  return "a JSON value";
}

Params::Params(const Json& given, std::span<const Parameter> expected) {
  if (!given.is_object()) throw bad_params("params: must be an object; parameters go by name here");
  for (const auto& [name, json] : members_of(given)) {
    const auto parameter = std::ranges::find(expected, name, &Parameter::name);
    if (parameter == expected.end()) {
      constexpr std::size_t enough = 100;
      throw bad_params("unknown parameter " + name.substr(0, enough) +
                       "; this method has: " + names_of(expected));
    }
    const bool none = json == "null" && null_is_none(*parameter);
    if (!none && !fits(parameter->kind, json)) {
      throw bad_params(name + ": must be " + std::string(describe(parameter->kind)));
    }
    if (!values_.emplace(name, json).second) throw bad_params(name + ": is given twice");
  }
  for (const auto& parameter : expected) {
    const auto found = values_.find(parameter.name);
    if (found != values_.end() && found->second == "null" && null_is_none(parameter)) values_.erase(found);
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
  return text_of(value(name));
}

std::chrono::milliseconds Params::milliseconds(std::string_view name) const {
  // Any longer time is as good as 285 000 years.
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

std::optional<std::string> Params::text_if(std::string_view name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::optional<std::chrono::milliseconds> Params::milliseconds_if(std::string_view name) const {
  return has(name) ? std::optional(milliseconds(name)) : std::nullopt;
}

std::optional<std::uint64_t> Params::count_if(std::string_view name) const {
  return has(name) ? std::optional(count(name)) : std::nullopt;
}

std::optional<Fence> Params::fence_if(std::string_view name) const {
  return has(name) ? std::optional(fence(name)) : std::nullopt;
}

std::optional<Json> Params::json_if(std::string_view name) const {
  return has(name) ? std::optional(json(name)) : std::nullopt;
}

}  // namespace holdfast::cli::rpc
