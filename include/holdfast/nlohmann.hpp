#pragma once

/// @file
/// Conversions between holdfast::Json and nlohmann::json. Header-only, so that it works with the version of
/// nlohmann::json that your program uses; the library does not depend on that version.

#include <holdfast/json.hpp>
#include <nlohmann/json.hpp>

namespace holdfast {

/// Parses the text of `json`. Throws nlohmann::json::exception if nlohmann::json refuses it.
[[nodiscard]] inline nlohmann::json to_nlohmann(const Json& json) {
  return nlohmann::json::parse(json.str());
}

/// Converts a value with its dump(). Throws what dump() throws for strings that are not UTF-8.
[[nodiscard]] inline Json from_nlohmann(const nlohmann::json& json) {
  return Json::unchecked(json.dump());
}

}  // namespace holdfast
