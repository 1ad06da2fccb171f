#pragma once

#include <exception>
#include <holdfast/error.hpp>
#include <holdfast/json.hpp>
#include <stdexcept>
#include <string>

namespace holdfast::cli::rpc {

// JSON-RPC's own; those of operations come from json_rpc_code().
inline constexpr int parse_error = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int method_not_found = -32601;
inline constexpr int invalid_params = -32602;
inline constexpr int internal_error = -32603;

/// What a request is answered with that cannot be carried out.
struct Failure {
  int code = internal_error;
  std::string message = {};
  /// SPEC's name of the error, for `data.code`; empty where the request did not come that far.
  std::string name = {};
  /// As those of Error.
  std::string from = {}, to = {};

  /// The `error` member of an answer.
  [[nodiscard]] Json json() const;
};

/// A Failure on its way to whoever answers.
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

/// What became of an exception of a method: an Error keeps its name and gets SPEC's number; a coroutine that
/// was cancelled is Aborted; anything else Internal.
[[nodiscard]] Failure failure_of(const std::exception_ptr& exception);

/// For co_spawn: what a coroutine threw goes on from where its context runs.
void rethrow(const std::exception_ptr& thrown);

}  // namespace holdfast::cli::rpc
