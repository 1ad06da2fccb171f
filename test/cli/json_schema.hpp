#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace holdfast::test {

/// What of a value its schema does not allow, with the path to it; empty if it fits. `document` is where
/// "#/..." references lead. Knows the words that rpc/methods/openrpc.json uses. Stricter than JSON Schema in
/// one point: an object may have only members that its `properties` name, so that each one is documented.
[[nodiscard]] std::string misfit(const nlohmann::json& value, const nlohmann::json& schema,
                                 const nlohmann::json& document, const std::string& path = "result");

/// The same for the result of this method, by the OpenRPC document of the methods.
[[nodiscard]] std::string misfit_of_result(const std::string& method, const nlohmann::json& result);

}  // namespace holdfast::test
