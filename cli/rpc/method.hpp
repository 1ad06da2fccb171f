#pragma once

#include <asio/awaitable.hpp>
#include <cstdint>
#include <holdfast/json.hpp>
#include <memory>
#include <span>
#include <string_view>

#include "rpc/params.hpp"

namespace holdfast::cli::rpc {

class Session;
struct Running;

/// What a method has of its caller.
struct Call {
  std::shared_ptr<Session> session;
  Params params;
  std::shared_ptr<Running> request;
};

/// How long a method takes, and what becomes of it when its client goes.
enum class Pace : std::uint8_t {
  prompt,  ///< as long as the engine does; carried out even if nobody is there any more to hear of it
  waits,   ///< as long as others let it wait; cancelled when the client goes
};

/// Whether a notification, which gets no answer, makes sense.
enum class Answer : std::uint8_t {
  welcome,
  needed,  ///< the lock id is in it: without one nobody could release what was taken. Not carried out
};

/// One method: its parameters, checked before it runs, and what it does. The result is the answer's; what it
/// throws becomes the answer's error.
struct Method {
  std::string_view name;
  std::span<const Parameter> parameters;
  asio::awaitable<Json> (*run)(Call);
  Pace pace = Pace::prompt;
  Answer answer = Answer::welcome;
};

[[nodiscard]] std::span<const Method> lock_methods();
[[nodiscard]] std::span<const Method> task_methods();
/// About the sidecar and its requests themselves.
[[nodiscard]] std::span<const Method> sidecar_methods();
/// Null if there is none of that name.
[[nodiscard]] const Method* find_method(std::string_view name);

}  // namespace holdfast::cli::rpc
