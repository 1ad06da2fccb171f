#include <holdfast/json.hpp>
#include <nlohmann/json.hpp>

#include "core/utf8.hpp"

namespace holdfast {

Result<Json> Json::parse(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos)
    return Error(ErrorCode::InvalidArgument, "this is no JSON: it is empty");
  const auto value = text.substr(begin, text.find_last_not_of(space) + 1 - begin);
  // The parser takes a NUL byte for the end and passes over a byte order mark; whoever gets the text would
  // not.
  if (const auto at = value.find('\0'); at != std::string_view::npos) {
    return Error(ErrorCode::InvalidArgument,
                 "this is no JSON: there is a NUL byte at position " + std::to_string(begin + at));
  }
  if (value.starts_with("\xEF\xBB\xBF")) {
    return Error(ErrorCode::InvalidArgument, "this is no JSON: it begins with a byte order mark");
  }
  if (nlohmann::json::accept(value)) return Json(std::string(value));
  try {
    [[maybe_unused]] const auto parsed = nlohmann::json::parse(value);
    return Error(ErrorCode::InvalidArgument, "this is no JSON");
  } catch (const nlohmann::json::exception& error) {
    return Error(ErrorCode::InvalidArgument, "this is no JSON", error.what());
  }
}

Result<Json> Json::string(std::string_view text) {
  if (!core::is_utf8(text)) return Error(ErrorCode::InvalidArgument, "the text is not valid UTF-8");
  return Json(nlohmann::json(text).dump());
}

}  // namespace holdfast
