#include "rpc/methods/openrpc.hpp"

#include <embedded/openrpc.json.hpp>
#include <holdfast/open.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"

namespace holdfast::rpc {
namespace {

using nlohmann::ordered_json;

ordered_json reference(std::string_view kind, std::string_view name) {
  return {{"$ref", std::string("#/components/").append(kind).append("/").append(name)}};
}

/// A parameter may mean something else in one method: `METHOD/NAME` then describes it there.
ordered_json parameter_of(const Method& method, const Parameter& parameter,
                          const ordered_json& descriptions) {
  const std::string name(parameter.name);
  const auto own = descriptions.find(std::string(method.name) + "/" + name);
  const auto& described = own != descriptions.end() ? *own : descriptions.at(name);
  auto schema = ordered_json::parse(schema_of(parameter.kind));
  if (const auto bounds = described.find("schema"); bounds != described.end()) {
    if (bounds->contains("$ref")) schema.clear();
    schema.update(*bounds);
  }
  return {{"name", name},
          {"description", described.at("description")},
          {"required", parameter.need == Need::required},
          {"schema", std::move(schema)}};
}

std::string remarks_on(const Method& method) {
  std::string text;
  if (method.pace == Pace::waits) text = "May wait; $/cancelRequest cancels it.";
  if (method.answer == Answer::needed) {
    if (!text.empty()) text += " ";
    text += "Ignored as a notification: without the answer, the client could not use what it acquired.";
  }
  return text;
}

/// `lock` of `lock.acquire`; `$` is the protocol's own.
std::string family_of(std::string_view method) {
  const auto family = method.substr(0, method.find_first_of("./"));
  return family == "$" ? "rpc" : std::string(family);
}

ordered_json method_object(const Method& method, const ordered_json& descriptions) {
  auto parameters = ordered_json::array();
  for (const auto& parameter : method.parameters.span()) {
    parameters.push_back(parameter_of(method, parameter, descriptions));
  }
  ordered_json object{{"name", method.name}, {"summary", method.summary}};
  if (auto remarks = remarks_on(method); !remarks.empty()) object["description"] = std::move(remarks);
  object["tags"] = ordered_json::array({{{"name", family_of(method.name)}}});
  object["paramStructure"] = "by-name";
  object["params"] = std::move(parameters);
  object["result"] = {{"name", method.result}, {"schema", reference("schemas", method.result)}};
  object["errors"] =
      ordered_json::array({reference("errors", "InvalidParams"), reference("errors", "OperationFailed")});
  return object;
}

ordered_json error_object(int code, std::string_view message) {
  return {{"code", code}, {"message", message}, {"data", reference("schemas", "ErrorData")}};
}

}  // namespace

Json openrpc_document() {
  auto texts = ordered_json::parse(embedded::openrpc);
  ordered_json document{{"openrpc", "1.3.2"}, {"info", std::move(texts["info"])}};
  document["info"]["version"] = version();
  auto all = ordered_json::array();
  for (const auto& method : methods()) all.push_back(method_object(method, texts["parameters"]));
  document["methods"] = std::move(all);
  document["components"] = {
      {"schemas", std::move(texts["schemas"])},
      {"errors",
       {{"InvalidParams",
         error_object(invalid_params, "A parameter is wrong, or the caller can mend the request")},
        {"OperationFailed", error_object(internal_error, "The operation failed")}}}};
  // OpenRPC has no word for what a server sends unasked.
  document["x-notifications"] = std::move(texts["notifications"]);
  return dump(document);
}

}  // namespace holdfast::rpc
