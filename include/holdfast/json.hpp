#pragma once

#include <holdfast/export.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Clang warns of a view that outlives the object it points into.
#if defined(__clang__)
#define HOLDFAST_LIFETIME_BOUND [[clang::lifetimebound]]
#else
#define HOLDFAST_LIFETIME_BOUND
#endif

namespace holdfast {

class JsonView;

/// An immutable JSON value, kept as text that is known to be valid. members_of(), elements_of() and
/// string_in() take it apart; <holdfast/nlohmann.hpp> converts it to and from nlohmann::json.
///
/// @code
/// const auto json = holdfast::Json::parse(R"({"pages": 7})").value_or_throw();
/// for (const auto& [name, value] : holdfast::members_of(json)) {
///   // name is "pages", value is "7"
/// }
/// @endcode
class HOLDFAST_EXPORT Json {
 public:
  /// Creates the value null.
  Json() = default;
  /// Copies the text of the view.
  explicit Json(JsonView view);
  /// Checks that `text` is one JSON value and keeps it as it is written, without the space around it. Gives
  /// InvalidArgument, with line and column, if it is not valid: a number beyond the range of a double and a
  /// byte order mark are refused too. Of members with the same name, the last counts.
  [[nodiscard]] static Result<Json> parse(std::string_view text);
  /// Returns a JSON string with this text. Gives InvalidArgument if the text is not valid UTF-8.
  [[nodiscard]] static Result<Json> string(std::string_view text);
  /// Wraps text without checking it. The text must be valid JSON without space around it.
  [[nodiscard]] static Json unchecked(std::string text) noexcept { return Json(std::move(text)); }

  /// Returns the JSON text.
  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  /// Returns true for the value null.
  [[nodiscard]] bool is_null() const noexcept { return text_ == "null"; }
  /// Returns true for an object.
  [[nodiscard]] bool is_object() const noexcept { return text_.starts_with('{'); }
  /// Compares the texts: `{"a":1}` and `{ "a": 1 }` are different.
  friend bool operator==(const Json&, const Json&) = default;

 private:
  explicit Json(std::string text) noexcept : text_(std::move(text)) {}
  std::string text_ = "null";
};

/// A Json as an argument: a function that takes a JsonView accepts a Json. It points into that Json and is
/// valid as long as the Json is; to keep the value longer than a call, keep the Json.
class JsonView {
 public:
  /// Creates the value null.
  constexpr JsonView() noexcept = default;
  /// Points into `json`.
  JsonView(const Json& json HOLDFAST_LIFETIME_BOUND) noexcept : text_(json.str()) {}

  /// Returns the JSON text. Valid as long as the Json is.
  [[nodiscard]] constexpr std::string_view str() const noexcept { return text_; }
  /// Returns true for the value null.
  [[nodiscard]] constexpr bool is_null() const noexcept { return text_ == "null"; }
  /// Returns true for an object.
  [[nodiscard]] constexpr bool is_object() const noexcept { return text_.starts_with('{'); }

 private:
  std::string_view text_ = "null";
};

inline Json::Json(JsonView view) : text_(view.str()) {}

/// A member of a JSON object.
struct JsonMember {
  /// The name, unescaped.
  std::string name;
  /// The value as JSON text, as it is written. Points into the object.
  std::string_view value;
};
/// Returns the members of an object in their order, repeated names included; an empty list if `object` is not
/// an object. Takes one pass, no matter how deep the values are nested. The values point into `object`.
[[nodiscard]] HOLDFAST_EXPORT std::vector<JsonMember> members_of(const Json& object);
/// Deleted: the values would point into a temporary.
std::vector<JsonMember> members_of(Json&& object) = delete;
/// Returns the elements of an array as JSON texts, as they are written; an empty list if `array` is not an
/// array. Takes one pass. The elements point into `array`.
[[nodiscard]] HOLDFAST_EXPORT std::vector<std::string_view> elements_of(const Json& array);
/// Deleted: the elements would point into a temporary.
std::vector<std::string_view> elements_of(Json&& array) = delete;
/// Returns the text of a JSON string, unescaped; empty if `json` is another kind of value. `json` is valid
/// JSON text, such as JsonMember::value.
[[nodiscard]] HOLDFAST_EXPORT std::optional<std::string> string_in(std::string_view json);

template <>
struct detail::OwnedArgument<JsonView> {
  using type = Json;
};

}  // namespace holdfast

#undef HOLDFAST_LIFETIME_BOUND
