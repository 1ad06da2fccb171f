#include <algorithm>
#include <holdfast/json.hpp>

#include "core/json_scanner.hpp"
#include "core/utf8.hpp"

namespace holdfast {
namespace {

using core::JsonScanner;
using core::JsonToken;

Error not_json(std::string_view text, const JsonScanner& scanner) {
  const auto before = text.substr(0, scanner.position());
  const auto line = std::ranges::count(before, '\n') + 1;
  const auto column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  std::string what = "invalid JSON";
  if (scanner.is_huge_number()) what = "invalid JSON: a number exceeds the range of a double";
  if (const auto rest = text.substr(before.size()); rest.starts_with('\0')) {
    what += ": NUL byte at position " + std::to_string(before.size());
  } else if (rest.starts_with("\xEF\xBB\xBF")) {
    what += ": starts with a byte order mark";
  }
  return {ErrorCode::InvalidArgument, what,
          "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + scanner.problem()};
}

}  // namespace

Result<Json> Json::parse(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Error(ErrorCode::InvalidArgument, "invalid JSON: empty");
  }
  JsonScanner scanner(text);
  const auto value = scanner.take_value().text;
  if (scanner.at_end()) return Json(std::string(value));
  return not_json(text, scanner);
}

Result<Json> Json::string(std::string_view text) {
  if (!core::is_utf8(text)) return Error(ErrorCode::InvalidArgument, "the text is not valid UTF-8");
  return Json(core::json_string(text));
}

std::vector<JsonMember> members_of(const Json& object) {
  std::vector<JsonMember> members;
  JsonScanner scanner(object.str());
  if (scanner.next() != JsonToken::object) return members;
  scanner.for_each_member([&] {
    auto name = scanner.text();
    members.push_back({std::move(name), scanner.take_value().text});
  });
  return members;
}

std::vector<std::string_view> elements_of(const Json& array) {
  std::vector<std::string_view> elements;
  JsonScanner scanner(array.str());
  if (scanner.next() != JsonToken::array) return elements;
  while (scanner.next() != JsonToken::end_array && scanner.token() != JsonToken::error) {
    elements.push_back(scanner.finish_value().text);
  }
  return elements;
}

std::optional<std::string> string_in(std::string_view json) {
  JsonScanner scanner(json);
  return scanner.next() == JsonToken::string ? std::optional(scanner.text()) : std::nullopt;
}

}  // namespace holdfast
