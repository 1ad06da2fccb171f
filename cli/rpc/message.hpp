#pragma once

#include <cstddef>
#include <holdfast/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rpc/failure.hpp"

namespace holdfast::cli::rpc {

// JSON-RPC 2.0, https://www.jsonrpc.org/specification, as text. Values stay as the client wrote them: ids go
// back exactly so, and what is nested deep is nobody's recursion.

struct Request {
  /// As written: a string, a number or null. Nothing: a notification, which gets no answer.
  std::optional<std::string> id = {};
  std::string method = {};
  /// An object; or an array that is not empty, which no method takes.
  Json params = Json::unchecked("{}");
};

/// What cannot be a request, and is answered at once.
struct Refusal {
  /// "null" unless the id could be made out.
  std::string id = "null";
  Failure failure = {};
};

using Parsed = std::variant<Request, Refusal>;

/// One line of a client.
struct Incoming {
  /// Its answers come together, as an array.
  bool batch = false;
  std::vector<Parsed> messages = {};
};

inline constexpr std::size_t max_batch = 1000;
/// As it is written. It is kept for as long as its request waits.
inline constexpr std::size_t max_id_bytes = 1024;

[[nodiscard]] Incoming parse_line(std::string_view line);
/// For a line that nobody kept.
[[nodiscard]] Refusal refusal_of_long_line(std::size_t limit);

/// Ids are compared by value: "a" and "\u0061" are the same. Numbers are compared as they are written. For an
/// id as in Request.
[[nodiscard]] std::string comparable_id(std::string_view id);

// Answers and notifications, each one line without its newline.
[[nodiscard]] std::string answer(std::string_view id, const Json& result);
[[nodiscard]] std::string answer(std::string_view id, const Failure& failure);
[[nodiscard]] std::string notification(std::string_view method, const Json& params);
[[nodiscard]] std::string batch_of(const std::vector<std::string>& answers);

}  // namespace holdfast::cli::rpc
