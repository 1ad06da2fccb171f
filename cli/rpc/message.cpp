#include "rpc/message.hpp"

#include <nlohmann/json.hpp>

#include "json_text.hpp"

namespace holdfast::cli::rpc {
namespace {

Refusal not_a_request(std::string message, std::string id = "null") {
  return {.id = std::move(id), .failure = {.code = invalid_request, .message = std::move(message)}};
}

bool is_text(std::string_view json) noexcept {
  return json.starts_with('"');
}

bool is_empty_array(std::string_view json) noexcept {
  return json.starts_with('[') && json.find_first_not_of(" \t\r\n", 1) == json.size() - 1;
}

bool may_be_id(std::string_view json) noexcept {
  return !json.empty() && json != "true" && json != "false" && json.front() != '{' && json.front() != '[';
}

Parsed parse_one(const Json& message) {
  if (!message.is_object())
    return not_a_request("a request is an object, with jsonrpc, method, params and id");
  std::optional<std::string_view> version;
  std::optional<std::string_view> id;
  std::optional<std::string_view> method;
  std::optional<std::string_view> params;
  for (const auto& [name, value] : members_of(message)) {
    auto* const member = name == "jsonrpc"  ? &version
                         : name == "id"     ? &id
                         : name == "method" ? &method
                         : name == "params" ? &params
                                            : nullptr;
    if (member == nullptr) continue;
    if (*member) return not_a_request("the request has two members called " + name);
    *member = value;
  }
  if (id && !may_be_id(*id)) return not_a_request("id: must be a string, a number or null");
  if (id && id->size() > max_id_bytes) {
    return not_a_request("id: is longer than " + std::to_string(max_id_bytes) + " bytes");
  }
  const auto refused = [&id](std::string why) {
    return not_a_request(std::move(why), std::string(id.value_or("null")));
  };
  if (version != "\"2.0\"") return refused("jsonrpc: must be \"2.0\"");
  if (!method || !is_text(*method)) return refused("method: must be a string, such as \"lock.acquire\"");
  if (params && params->front() != '{' && params->front() != '[') return refused("params: must be an object");

  Request request{.method = nlohmann::json::parse(*method).get<std::string>()};
  if (id) request.id = std::string(*id);
  if (params && !is_empty_array(*params)) request.params = Json::unchecked(std::string(*params));
  return request;
}

}  // namespace

Incoming parse_line(std::string_view line) {
  auto json = Json::parse(line);
  if (!json) {
    auto why = json.error().message();
    // The parser's words repeat what it read last, which may be most of the line.
    constexpr std::size_t enough = 200;
    if (const auto& cause = json.error().cause(); !cause.empty()) why += " (" + cause.substr(0, enough) + ")";
    return {.messages = {Refusal{.failure = {.code = parse_error, .message = std::move(why)}}}};
  }
  if (!json->str().starts_with('[')) return {.messages = {parse_one(*json)}};

  const auto elements = elements_of(*json);
  if (elements.empty()) return {.messages = {not_a_request("the batch is empty")}};
  if (elements.size() > max_batch) {
    return {.messages = {not_a_request("the batch has " + std::to_string(elements.size()) +
                                       " requests; at most " + std::to_string(max_batch) + " go together")}};
  }
  Incoming incoming{.batch = true};
  for (const auto element : elements) {
    incoming.messages.push_back(parse_one(Json::unchecked(std::string(element))));
  }
  return incoming;
}

Refusal refusal_of_long_line(std::size_t limit) {
  return not_a_request("the line is longer than " + std::to_string(limit) + " bytes, and was passed over");
}

std::string comparable_id(std::string_view id) {
  return nlohmann::json::parse(id).dump();
}

std::string answer(std::string_view id, const Json& result) {
  std::string line = R"({"jsonrpc":"2.0","id":)";
  line.append(id).append(R"(,"result":)").append(on_one_line(result.str())).append("}");
  return line;
}

std::string answer(std::string_view id, const Failure& failure) {
  std::string line = R"({"jsonrpc":"2.0","id":)";
  line.append(id).append(R"(,"error":)").append(failure.json().str()).append("}");
  return line;
}

std::string notification(std::string_view method, const Json& params) {
  std::string line = R"({"jsonrpc":"2.0","method":")";
  line.append(method).append(R"(","params":)").append(on_one_line(params.str())).append("}");
  return line;
}

std::string batch_of(const std::vector<std::string>& answers) {
  std::string line = "[";
  for (const auto& one : answers) {
    if (line.size() > 1) line += ',';
    line += one;
  }
  return line + "]";
}

}  // namespace holdfast::cli::rpc
