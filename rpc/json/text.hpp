#pragma once

#include <cstddef>
#include <holdfast/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::rpc {

// JSON that comes from users stays text: it may be nested as deep as its length allows, where the JSON
// library prints by recursion, and have as many members, where its ordered objects search all of them for
// each. The functions here go through the text once. <holdfast/json.hpp> checks it and takes it apart.
using holdfast::members_of;

/// Builds an object member by member, in this order.
class JsonObject {
 public:
  /// Throws Error(InvalidArgument) if the name is not UTF-8.
  void add(std::string_view name, std::string_view json_value);
  [[nodiscard]] Json json() const { return Json::unchecked(text_ + "}"); }

 private:
  std::string text_ = "{";
};

[[nodiscard]] inline bool is_string(std::string_view json) noexcept {
  return json.starts_with('"');
}
/// Returns the index past the end of the string that begins at `start`, in valid JSON.
[[nodiscard]] std::size_t end_of_string(std::string_view json, std::size_t start) noexcept;
/// Prints an object of the library's own making. Bytes that are not UTF-8 are replaced: messages of a server
/// or the names of files may hold any.
[[nodiscard]] Json dump(const nlohmann::ordered_json& object);

/// Builds an array of elements that are JSON.
[[nodiscard]] std::string array_of(const std::vector<std::string>& elements);

/// Prints on one line, without space between the parts, and safe for a terminal: control characters that JSON
/// allows (see control_character_bytes) are escaped. They occur in strings only, where the escape means the
/// same.
[[nodiscard]] std::string on_one_line(std::string_view json);
/// The same over several lines, indented. Levels that are nested too deep for that to help stay on one line.
[[nodiscard]] std::string indented(std::string_view json);

}  // namespace holdfast::rpc
