#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/thread_pool.hpp>
#include <cstdint>
#include <holdfast/asio.hpp>
#include <holdfast/json.hpp>
#include <holdfast/open.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rpc/protocol/params.hpp"
#include "rpc/session/granted_keys.hpp"
#include "rpc/session/limits.hpp"

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
  std::string_view result;   ///< what the answer holds: the name of a schema in methods/openrpc.json
  Pace pace = Pace::prompt;
  Answer answer = Answer::optional;
};

/// What all clients share: the opened engine and the methods.
class Service {
 public:
  /// `options`: those of queues, and, as its `tasks`, those of ordinary tasks.
  Service(asio::any_io_executor executor, Holdfast holdfast, const QueueOptions& options,
          std::span<const Method> methods);

  /// Null if there is none of that name.
  [[nodiscard]] const Method* find_method(std::string_view name) const noexcept;

  /// Of the one thread that runs everything but the engine's own work.
  [[nodiscard]] const asio::any_io_executor& executor() const noexcept { return executor_; }
  [[nodiscard]] AsyncLocks& locks() noexcept { return locks_; }
  /// Opened at the first use: a client of locks alone needs no rights to tasks.
  [[nodiscard]] asio::awaitable<AsyncTasks> tasks();
  /// Throws Error(InvalidArgument) for an invalid name.
  [[nodiscard]] asio::awaitable<Queue> queue(std::string name);
  [[nodiscard]] const QueueOptions& options() const noexcept { return options_; }

  /// Acquires a lock for a client that gets its id alone. Throws as AsyncLocks::acquire.
  [[nodiscard]] asio::awaitable<Lease> acquire(std::string key, LockOptions options);
  // By id, as those of AsyncLocks, but with the engine's outcome: expired or not found. The key of a lock
  // that was granted here is passed along.
  [[nodiscard]] asio::awaitable<ReleaseOutcome> release(LockId id);
  [[nodiscard]] asio::awaitable<ExtendOutcome> extend(LockId id, Ttl ttl);

 private:
  template <class Request>
  [[nodiscard]] asio::awaitable<typename Request::Outcome> ask(Request request);

  asio::any_io_executor executor_;
  Holdfast holdfast_;
  QueueOptions options_;
  std::span<const Method> methods_;
  AsyncLocks locks_;
  AsyncTasks tasks_;  ///< empty until it is used
  GrantedKeys granted_{max_granted_keys};
  asio::thread_pool blocking_{1};  ///< the operations of some engines block
};

}  // namespace holdfast::rpc
