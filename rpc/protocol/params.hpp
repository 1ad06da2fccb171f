#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/fence.hpp>
#include <holdfast/json.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::rpc {

enum class Kind : std::uint8_t {
  text,
  milliseconds,  ///< a whole number, 0 or more
  wait,          ///< the same, clamped if it is larger than a double holds exactly
  count,         ///< as milliseconds, of something else
  integer,       ///< a whole number that may be negative
  fence,         ///< its 15 digits as a string
  id,            ///< of a request: a string or a number
  boolean,
  object,
  texts,  ///< an array of strings
  any,    ///< any JSON value, null too if it is required
};

enum class Need : std::uint8_t { required, optional };

/// One named parameter of a method.
struct Parameter {
  std::string_view name = {};
  Kind kind = {};
  Need need = Need::required;
};

/// The parameters of a method, for the table: `task + optional("result", Kind::any)`.
struct Parameters {
  std::array<Parameter, 16> list = {};
  std::size_t size = 0;

  [[nodiscard]] constexpr std::span<const Parameter> span() const noexcept { return {list.data(), size}; }
};
constexpr Parameters operator+(Parameters left, const Parameters& right) {
  for (const auto& parameter : right.span()) left.list.at(left.size++) = parameter;
  return left;
}
constexpr Parameters required(std::string_view name, Kind kind) {
  return {.list = {Parameter{name, kind}}, .size = 1};
}
constexpr Parameters optional(std::string_view name, Kind kind) {
  return {.list = {Parameter{name, kind, Need::optional}}, .size = 1};
}

/// The parameters of one request, checked against those of its method: known names, right types, none
/// missing. An optional parameter that is null counts as absent.
class Params {
 public:
  /// `given`: as in Request. Throws bad_params, which names the parameter and what was expected.
  Params(const Json& given, std::span<const Parameter> expected);

  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }

  // Preconditions: the parameter is present, and of that kind in the table.
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] std::chrono::milliseconds milliseconds(std::string_view name) const;
  [[nodiscard]] std::uint64_t count(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] bool boolean(std::string_view name) const;
  [[nodiscard]] Fence fence(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;
  [[nodiscard]] Json json(std::string_view name) const;

  // The same, or nothing if it is absent.
  [[nodiscard]] auto text_if(std::string_view name) const { return if_present(name, &Params::text); }
  [[nodiscard]] auto milliseconds_if(std::string_view name) const {
    return if_present(name, &Params::milliseconds);
  }
  [[nodiscard]] auto count_if(std::string_view name) const { return if_present(name, &Params::count); }
  [[nodiscard]] auto integer_if(std::string_view name) const { return if_present(name, &Params::integer); }
  [[nodiscard]] auto boolean_if(std::string_view name) const { return if_present(name, &Params::boolean); }
  [[nodiscard]] auto json_if(std::string_view name) const { return if_present(name, &Params::json); }

 private:
  template <class T>
  [[nodiscard]] std::optional<T> if_present(std::string_view name,
                                            T (Params::*get)(std::string_view) const) const {
    return has(name) ? std::optional<T>((this->*get)(name)) : std::nullopt;
  }
  [[nodiscard]] const std::string& value(std::string_view name) const;

  std::map<std::string, std::string, std::less<>> values_;  ///< as written
};

/// What a parameter must be, for error messages: "a string".
[[nodiscard]] std::string_view describe(Kind kind) noexcept;
/// The same as a JSON Schema.
[[nodiscard]] std::string_view schema_of(Kind kind) noexcept;

}  // namespace holdfast::rpc
