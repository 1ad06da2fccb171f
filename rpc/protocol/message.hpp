#pragma once

#include <cstddef>
#include <exception>
#include <holdfast/error.hpp>
#include <holdfast/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace holdfast::rpc {

// JSON-RPC 2.0, https://www.jsonrpc.org/specification, as text. Values stay as the client wrote them: ids are
// returned unchanged, and deep nesting costs no recursion.

// JSON-RPC's own; those of operations come from json_rpc_code().
inline constexpr int parse_error = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int method_not_found = -32601;
inline constexpr int invalid_params = -32602;
inline constexpr int internal_error = -32603;

/// The error that answers a request.
struct Failure {
  int code = internal_error;
  std::string message = {};
  /// SPEC's name of the error, for `data.code`; empty for errors of JSON-RPC itself.
  std::string name = {};
  /// As those of Error: the states of a refused transition.
  std::string from = {}, to = {};
  /// As that of Error: the label of the holder of a lock that was not acquired.
  std::string holder = {};

  /// The `error` member of an answer.
  [[nodiscard]] Json json() const;
};

/// Thrown by methods and by parameter checks; the session answers with its failure.
class FailedRequest : public std::runtime_error {
 public:
  explicit FailedRequest(Failure failure)
      : std::runtime_error(failure.message), failure_(std::move(failure)) {}
  [[nodiscard]] const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

/// Wrong, missing or unknown parameters.
[[nodiscard]] FailedRequest bad_params(std::string message);

/// Maps an exception of a method: an Error keeps its name and gets SPEC's number; a coroutine that was
/// cancelled is Aborted; anything else is Internal.
[[nodiscard]] Failure failure_of(const std::exception_ptr& exception);

/// A completion handler for co_spawn: rethrows from the context's run().
void rethrow(const std::exception_ptr& thrown);

struct Request {
  /// As written: a string, a number or null. Absent for a notification, which gets no answer.
  std::optional<std::string> id = {};
  std::string method = {};
  /// An object; or a non-empty array, which no method accepts.
  Json params = Json::unchecked("{}");
};

/// A message that is not a valid request, and its answer.
struct Refusal {
  /// "null" if the id is unknown.
  std::string id = "null";
  Failure failure = {};
};

using Parsed = std::variant<Request, Refusal>;

/// One line of a client: a message or a batch.
struct Incoming {
  /// The answers are sent together, as an array.
  bool batch = false;
  std::vector<Parsed> messages = {};
};

inline constexpr std::size_t max_batch = 1000;
/// As written. An id is kept until its request is answered.
inline constexpr std::size_t max_id_bytes = 1024;

[[nodiscard]] Incoming parse_line(std::string_view line);
/// The answer to a line that was skipped because it is longer than `limit`.
[[nodiscard]] Refusal refusal_of_long_line(std::size_t limit);

/// Ids are compared by value: "a" and "\u0061" are the same. Numbers are compared as they are written. For an
/// id as in Request.
[[nodiscard]] std::string comparable_id(std::string_view id);

// Answers and notifications, each one line without its newline.
[[nodiscard]] std::string answer(std::string_view id, const Json& result);
[[nodiscard]] std::string answer(std::string_view id, const Failure& failure);
[[nodiscard]] std::string notification(std::string_view method, const Json& params);

}  // namespace holdfast::rpc
