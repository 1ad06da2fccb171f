#pragma once

/// For users of nlohmann::json: conversions from and to holdfast::Json. The library itself is not tied to
/// their version of it.
#include <holdfast/json.hpp>
#include <nlohmann/json.hpp>

namespace holdfast {

[[nodiscard]] inline nlohmann::json to_nlohmann(const Json& json) {
  return nlohmann::json::parse(json.str());
}

/// Throws what dump() throws for strings that are not UTF-8.
[[nodiscard]] inline Json from_nlohmann(const nlohmann::json& json) {
  return Json::unchecked(json.dump());
}

}  // namespace holdfast
