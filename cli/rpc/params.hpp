#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/fence.hpp>
#include <holdfast/json.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::cli::rpc {

enum class Kind : std::uint8_t {
  text,
  milliseconds,  ///< a whole number, 0 or more
  wait,          ///< the same, however large
  count,         ///< as milliseconds, of something else
  fence,         ///< its 15 digits as a string, or the plain number
  id,            ///< of a request: a string or a number
  object,
  any,  ///< any JSON value, null too if it is required
};

enum class Need : std::uint8_t { required, optional };

/// One named parameter of a method.
struct Parameter {
  std::string_view name;
  Kind kind;
  Need need = Need::required;
};

/// The parameters of one request, known to be those its method has, of the right types, and complete. null
/// for an optional one is the same as leaving it out.
class Params {
 public:
  /// `given`: as in Request. Throws bad_params, which names the parameter and what was expected.
  Params(const Json& given, std::span<const Parameter> expected);

  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }

  // Of a parameter that is there; of the kind the method says.
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] std::chrono::milliseconds milliseconds(std::string_view name) const;
  [[nodiscard]] std::uint64_t count(std::string_view name) const;
  [[nodiscard]] Fence fence(std::string_view name) const;
  [[nodiscard]] Json json(std::string_view name) const;

  // Nothing if it is not there.
  [[nodiscard]] std::optional<std::string> text_if(std::string_view name) const;
  [[nodiscard]] std::optional<std::chrono::milliseconds> milliseconds_if(std::string_view name) const;
  [[nodiscard]] std::optional<std::uint64_t> count_if(std::string_view name) const;
  [[nodiscard]] std::optional<Fence> fence_if(std::string_view name) const;
  [[nodiscard]] std::optional<Json> json_if(std::string_view name) const;

 private:
  [[nodiscard]] const std::string& value(std::string_view name) const;
  /// As they are written.
  std::map<std::string, std::string, std::less<>> values_;
};

/// What a method wants of a parameter, for error messages and descriptions: "a string".
[[nodiscard]] std::string_view describe(Kind kind) noexcept;

}  // namespace holdfast::cli::rpc
