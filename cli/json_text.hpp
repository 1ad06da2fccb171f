#pragma once

#include <holdfast/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::cli {

// JSON that comes from users stays text: it may be nested as deep as its length allows, where the JSON
// library prints by recursion, and have as many members, where its ordered objects look through all of them
// for each. What is here goes through the text once.

/// `"name":value` for each, in this order, between braces. A name that is not UTF-8: Error(InvalidArgument).
class JsonObject {
 public:
  void add(std::string_view name, std::string_view json_value);
  [[nodiscard]] Json json() const { return Json::unchecked(text_ + "}"); }

 private:
  std::string text_ = "{";
};

struct JsonMember {
  std::string name;
  std::string_view value;  ///< as it is written
};
/// The members of an object in their order, those of the same name too. The values point into `object`.
[[nodiscard]] std::vector<JsonMember> members_of(const Json& object);
std::vector<JsonMember> members_of(Json&& object) = delete;
/// The elements of an array, as they are written, pointing into it.
[[nodiscard]] std::vector<std::string_view> elements_of(const Json& array);
std::vector<std::string_view> elements_of(Json&& array) = delete;

/// On one line, without space between its parts, and fit for a terminal: the control characters that JSON
/// lets through (DEL and C1, which some terminals obey, and those that turn the direction of writing) are
/// escaped. They stand in strings only, where that
/// means the same.
[[nodiscard]] std::string on_one_line(std::string_view json);
/// The same over several lines, indented. What is nested too deep for that to help anybody stays on one.
[[nodiscard]] std::string indented(std::string_view json);

}  // namespace holdfast::cli
