#pragma once

#include <holdfast/export.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Where the compiler can, it warns of a view that outlives what it was made from.
#if defined(__clang__)
#define HOLDFAST_LIFETIME_BOUND [[clang::lifetimebound]]
#else
#define HOLDFAST_LIFETIME_BOUND
#endif

namespace holdfast {

class JsonView;

/// JSON as text that is known to be valid. members_of and elements_of take it apart; <holdfast/nlohmann.hpp>
/// converts for those who use that library.
class HOLDFAST_EXPORT Json {
 public:
  /// null
  Json() = default;
  explicit Json(JsonView view);
  /// Any JSON value, kept as it is written but for space around it. InvalidArgument, naming the place, if it
  /// is none; of members with one name the last counts.
  [[nodiscard]] static Result<Json> parse(std::string_view text);
  /// A JSON string of this text, which must be UTF-8: InvalidArgument otherwise.
  [[nodiscard]] static Result<Json> string(std::string_view text);
  /// Of text that is known to be valid JSON without space around it; nobody checks.
  [[nodiscard]] static Json unchecked(std::string text) noexcept { return Json(std::move(text)); }

  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  [[nodiscard]] bool is_null() const noexcept { return text_ == "null"; }
  [[nodiscard]] bool is_object() const noexcept { return text_.starts_with('{'); }
  friend bool operator==(const Json&, const Json&) = default;

 private:
  explicit Json(std::string text) noexcept : text_(std::move(text)) {}
  std::string text_ = "null";
};

/// A Json as an argument: a function that takes one can be given a Json. Valid for as long as that is: to
/// keep it longer than a call, keep the Json.
class JsonView {
 public:
  /// null
  constexpr JsonView() noexcept = default;
  JsonView(const Json& json HOLDFAST_LIFETIME_BOUND) noexcept : text_(json.str()) {}

  [[nodiscard]] constexpr std::string_view str() const noexcept { return text_; }
  [[nodiscard]] constexpr bool is_null() const noexcept { return text_ == "null"; }
  [[nodiscard]] constexpr bool is_object() const noexcept { return text_.starts_with('{'); }

 private:
  std::string_view text_ = "null";
};

inline Json::Json(JsonView view) : text_(view.str()) {}

/// A member of an object. The value is JSON as it is written, and points into the object.
struct JsonMember {
  std::string name;
  std::string_view value;
};
/// Returns the members of an object in their order, those with one name all; nothing if it is no object.
/// Takes one pass, however deep the values are nested.
[[nodiscard]] HOLDFAST_EXPORT std::vector<JsonMember> members_of(const Json& object);
std::vector<JsonMember> members_of(Json&& object) = delete;
/// Returns the elements of an array as they are written, likewise.
[[nodiscard]] HOLDFAST_EXPORT std::vector<std::string_view> elements_of(const Json& array);
std::vector<std::string_view> elements_of(Json&& array) = delete;
/// Returns the text of a value that is a string; nothing if it is something else.
[[nodiscard]] HOLDFAST_EXPORT std::optional<std::string> string_in(std::string_view json);

template <>
struct detail::OwnedArgument<JsonView> {
  using type = Json;
};

}  // namespace holdfast

#undef HOLDFAST_LIFETIME_BOUND
