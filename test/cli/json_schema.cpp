#include "json_schema.hpp"

#include <algorithm>
#include <map>
#include <regex>
#include <string_view>

#include "rpc/methods/openrpc.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

bool is_of_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

bool is_of_types(const json& value, const json& types) {
  if (types.is_string()) return is_of_type(value, types);
  return std::ranges::any_of(types, [&](const json& type) { return is_of_type(value, type); });
}

std::string misfit_of_object(const json& value, const json& schema, const json& document,
                             const std::string& path) {
  for (const auto& name : schema.value("required", json::array())) {
    if (!value.contains(name.get<std::string>())) return path + "." + name.get<std::string>() + " is missing";
  }
  for (const auto& [name, member] : value.items()) {
    const auto& properties = schema["properties"];
    if (!properties.contains(name)) return path + "." + name + " is not documented";
    if (auto why = misfit(member, properties[name], document, path + "." + name); !why.empty()) return why;
  }
  return {};
}

std::string misfit_of_choice(const json& value, const json& choices, const json& document,
                             const std::string& path) {
  std::string whys;
  int fitting = 0;
  for (const auto& choice : choices) {
    const auto why = misfit(value, choice, document, path);
    if (why.empty()) ++fitting;
    whys += "; " + why;
  }
  return fitting == 1 ? "" : path + " fits " + std::to_string(fitting) + " choices" + whys;
}

}  // namespace

std::string misfit(const json& value, const json& schema, const json& document, const std::string& path) {
  constexpr std::string_view local = "#";
  if (schema.contains("$ref")) {
    const auto to = schema["$ref"].get<std::string>();
    if (!to.starts_with(local)) return {};
    return misfit(value, document.at(json::json_pointer(to.substr(local.size()))), document, path);
  }
  if (schema.contains("oneOf")) return misfit_of_choice(value, schema["oneOf"], document, path);
  if (schema.contains("type") && !is_of_types(value, schema["type"])) {
    return path + " is " + value.dump() + ", not of type " + schema["type"].dump();
  }
  if (schema.contains("const") && value != schema["const"]) return path + " is " + value.dump();
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    return path + " is " + value.dump() + ", none of " + schema["enum"].dump();
  }
  if (schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>()))) {
    return path + " is " + value.dump();
  }
  if (schema.contains("minimum") && value < schema["minimum"]) return path + " is " + value.dump();
  if (value.is_object() && schema.contains("properties"))
    return misfit_of_object(value, schema, document, path);
  if (value.is_array() && schema.contains("items")) {
    for (const auto& element : value) {
      if (auto why = misfit(element, schema["items"], document, path + "[]"); !why.empty()) return why;
    }
  }
  return {};
}

std::string misfit_of_result(const std::string& method, const json& result) {
  static const auto document = json::parse(rpc::openrpc_document().str());
  static const auto schemas = [] {
    std::map<std::string, json> by_name;
    for (const auto& described : document["methods"]) {
      by_name[described["name"]] = described["result"]["schema"];
    }
    return by_name;
  }();
  const auto found = schemas.find(method);
  return found == schemas.end() ? method + " is not described" : misfit(result, found->second, document);
}

}  // namespace holdfast::test
