#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace holdfast::test {

/// The lines of a program's output, without their ends.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The names in a JSON object: in the order of the text for an ordered_json, sorted for a json.
template <class Object>
std::vector<std::string> member_names(const Object& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

}  // namespace holdfast::test
