#pragma once

#include <asio/awaitable.hpp>
#include <cstdint>
#include <holdfast/json.hpp>
#include <memory>
#include <string_view>

#include "rpc/protocol/params.hpp"

namespace holdfast::rpc {

class Session;
struct RunningRequest;

/// One request for a method.
struct MethodCall {
  std::shared_ptr<Session> session;
  Params params;
  std::shared_ptr<RunningRequest> request;
};

/// How long a method takes, and whether it survives its client.
enum class Pace : std::uint8_t {
  prompt,  ///< as long as the engine takes; completed even if the client is gone
  waits,   ///< until another client acts; cancelled when the client is gone
};

/// Whether the method makes sense as a notification, which gets no answer.
enum class Answer : std::uint8_t {
  optional,
  needed,  ///< the answer holds the lock id, without which the lock could not be released: not carried out
};

/// One row of the table. The session checks the parameters before it calls `run`, answers with what `run`
/// returns, and maps what it throws (failure_of).
struct Method {
  std::string_view name;
  Parameters parameters;
  asio::awaitable<Json> (*run)(MethodCall);
  std::string_view summary;  ///< one line
  std::string_view result;   ///< what the answer holds
  Pace pace = Pace::prompt;
  Answer answer = Answer::optional;
};

}  // namespace holdfast::rpc
