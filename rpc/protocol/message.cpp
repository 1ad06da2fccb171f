#include "rpc/protocol/message.hpp"

#include <algorithm>
#include <array>
#include <asio/error.hpp>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "rpc/json/text.hpp"
#include "rpc/protocol/error_text.hpp"

namespace holdfast::rpc {
namespace {

Refusal not_a_request(std::string message, std::string id = "null") {
  return {.id = std::move(id), .failure = {.code = invalid_request, .message = std::move(message)}};
}

bool is_empty_array(std::string_view json) noexcept {
  return json.starts_with('[') && json.find_first_not_of(" \t\r\n", 1) == json.size() - 1;
}

bool may_be_id(std::string_view json) noexcept {
  return !json.empty() && json != "true" && json != "false" && json.front() != '{' && json.front() != '[';
}

Parsed parse_one(const Json& message) {
  if (!message.is_object())
    return not_a_request("a request must be an object with jsonrpc, method, params and id");
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
    if (*member) return not_a_request("the request has two members named " + name);
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
  const auto called = method ? string_in(*method) : std::nullopt;
  if (!called) return refused("method: must be a string, such as \"lock.acquire\"");
  if (params && params->front() != '{' && params->front() != '[') return refused("params: must be an object");

  Request request{.method = *called};
  if (id) request.id = std::string(*id);
  if (params && !is_empty_array(*params)) request.params = Json::unchecked(std::string(*params));
  return request;
}

Refusal not_json(const Error& error) {
  auto why = error.message();
  if (const auto& cause = error.cause(); !cause.empty()) why += " (" + cause + ")";
  return {.failure = {.code = parse_error, .message = std::move(why)}};
}

/// Two members, as JSON, after the version.
std::string message(std::string_view first, std::string_view value, std::string_view second,
                    std::string_view content) {
  std::string line = R"({"jsonrpc":"2.0",")";
  line.append(first).append("\":").append(value).append(",\"").append(second).append("\":").append(content);
  return line += '}';
}

/// The code unit of the `\uXXXX` that begins there; nothing if none does.
std::optional<unsigned> escaped_unit(std::string_view text, std::size_t at) {
  constexpr std::size_t length = 6;
  if (text.size() < at + length || text.substr(at, 2) != "\\u") return std::nullopt;
  const auto* const end = text.data() + at + length;
  unsigned unit = 0;
  const auto [stopped_at, error] = std::from_chars(text.data() + at + 2, end, unit, 16);
  if (error != std::errc() || stopped_at != end) return std::nullopt;
  return unit;
}

/// Replaces each escaped half of a surrogate pair without its other half by U+FFFD, an escape of the same
/// length. Python and JavaScript write such halves; they are not text, and no parser here accepts them.
std::string without_lone_surrogates(std::string text) {
  for (std::size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const auto unit = escaped_unit(text, at);
    if (!unit) {
      at += 2;
      continue;
    }
    const auto next = escaped_unit(text, at + 6);
    const bool is_pair = *unit >= 0xD800 && *unit < 0xDC00 && next && *next >= 0xDC00 && *next < 0xE000;
    if (!is_pair && *unit >= 0xD800 && *unit < 0xE000) text.replace(at, 6, "\\ufffd");
    at += is_pair ? 12 : 6;
  }
  return text;
}

/// Replaces each number that no double can hold, and no parser here accepts, by a zero of the same length.
std::string without_huge_numbers(std::string text) {
  constexpr std::string_view of_numbers = "+-.0123456789eE";
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = end_of_string(text, at);
    } else if (text[at] == '-' || (text[at] >= '0' && text[at] <= '9')) {
      const auto length = std::min(text.find_first_not_of(of_numbers, at), text.size()) - at;
      if (length > 2 && !Json::parse(std::string_view(text).substr(at, length))) {
        text.replace(at, length, "0." + std::string(length - 2, '0'));
      }
      at += length;
    } else {
      ++at;
    }
  }
  return text;
}

/// A way to make a line readable, only to learn the id to answer with.
struct Mending {
  std::string (*mend)(std::string);
  const char* why;
};
constexpr std::array mendings = {
    Mending{without_lone_surrogates,
            "the request contains half of a surrogate pair (\\ud800 to \\udfff without its other half), "
            "which is not valid Unicode; nothing was changed"},
    Mending{
        without_huge_numbers,
        "the request contains a number that exceeds the range of a double (1.8e308); nothing was changed"}};

/// The answer to a message that had to be mended: with its id, unless the mending changed that.
Refusal refusal_of_mended(const Json& mended, std::string_view as_sent, const Refusal& otherwise,
                          const char* why) {
  const auto parsed = parse_one(mended);
  const auto* const request = std::get_if<Request>(&parsed);
  if (request == nullptr || !request->id) return otherwise;
  for (const auto& [name, value] : members_of(mended)) {
    const auto at = static_cast<std::size_t>(value.data() - mended.str().data());
    if (name == "id" && as_sent.substr(at, value.size()) != value) return otherwise;
  }
  return {.id = *request->id, .failure = bad_params(why).failure()};
}

}  // namespace

Json Failure::json() const {
  nlohmann::ordered_json object{{"code", code}, {"message", message}};
  if (!name.empty()) object["data"]["code"] = name;
  if (!from.empty()) object["data"]["from"] = from;
  if (!to.empty()) object["data"]["to"] = to;
  if (!holder.empty()) object["data"]["holder"] = holder;
  return dump(object);
}

FailedRequest bad_params(std::string message) {
  return FailedRequest({.code = invalid_params,
                        .message = std::move(message),
                        .name = std::string(to_string(ErrorCode::InvalidArgument))});
}

Failure failure_of(const std::exception_ptr& exception) {
  const auto named = [](ErrorCode code, std::string message) {
    return Failure{
        .code = json_rpc_code(code), .message = std::move(message), .name = std::string(to_string(code))};
  };
  try {
    std::rethrow_exception(exception);
  } catch (const FailedRequest& error) {
    return error.failure();
  } catch (const Error& error) {
    auto failure = named(error.code(), text_of(error));
    failure.from = error.from();
    failure.to = error.to();
    failure.holder = error.holder();
    return failure;
  } catch (const std::system_error& error) {
    // Asio's own code for a cancelled coroutine equals no std::errc.
    if (error.code() == std::errc::operation_canceled || error.code() == asio::error::operation_aborted) {
      return named(ErrorCode::Aborted, "the request was cancelled");
    }
    return named(ErrorCode::Internal, std::string("unexpected error: ") + error.what());
  } catch (const std::exception& error) {
    return named(ErrorCode::Internal, std::string("unexpected error: ") + error.what());
  }
}

void rethrow(const std::exception_ptr& thrown) {
  if (thrown) std::rethrow_exception(thrown);
}

Incoming parse_line(std::string_view line) {
  // Json drops the space around its text; without it, offsets before and after mending agree.
  line.remove_prefix(std::min(line.find_first_not_of(" \t\r\n"), line.size()));
  auto json = Json::parse(line);
  std::optional<Refusal> refused;
  const char* why = "";
  if (!json) {
    refused = not_json(json.error());
    for (auto mending = mendings.begin(); !json && mending != mendings.end(); ++mending) {
      json = Json::parse(mending->mend(std::string(line)));
      why = mending->why;
    }
    if (!json) return {.messages = {*refused}};
  }
  const auto parsed = [&](Json message, std::size_t at) -> Parsed {
    const auto as_sent = line.substr(at, message.str().size());
    if (as_sent == message.str()) return parse_one(message);
    return refusal_of_mended(message, as_sent, *refused, why);
  };
  if (!json->str().starts_with('[')) return {.messages = {parsed(*json, 0)}};

  const auto elements = elements_of(*json);
  if (elements.empty()) return {.messages = {not_a_request("the batch is empty")}};
  if (elements.size() > max_batch) {
    return {.messages = {not_a_request("the batch has " + std::to_string(elements.size()) +
                                       " requests; at most " + std::to_string(max_batch) + " are allowed")}};
  }
  Incoming incoming{.batch = true};
  for (const auto element : elements) {
    const auto at = static_cast<std::size_t>(element.data() - json->str().data());
    incoming.messages.push_back(parsed(Json::unchecked(std::string(element)), at));
  }
  return incoming;
}

Refusal refusal_of_long_line(std::size_t limit) {
  return not_a_request("the line is longer than " + std::to_string(limit) + " bytes and was ignored");
}

std::string comparable_id(std::string_view id) {
  // Numbers as written: two large ones may be one double.
  const auto text = string_in(id);
  return text ? Json::string(*text).value_or_throw().str() : std::string(id);
}

std::string answer(std::string_view id, const Json& result) {
  return message("id", id, "result", on_one_line(result.str()));
}

std::string answer(std::string_view id, const Failure& failure) {
  return message("id", id, "error", failure.json().str());
}

std::string notification(std::string_view method, const Json& params) {
  return message("method", '"' + std::string(method) + '"', "params", on_one_line(params.str()));
}

}  // namespace holdfast::rpc
