#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/thread_pool.hpp>
#include <holdfast/asio.hpp>
#include <holdfast/open.hpp>
#include <optional>

namespace holdfast::cli::rpc {

/// What all clients share: one opened engine.
class Service {
 public:
  Service(asio::any_io_executor executor, Holdfast holdfast, const TaskOptions& task_options);

  /// Of the one thread on which everything happens but the engine's own work.
  [[nodiscard]] const asio::any_io_executor& executor() const noexcept { return executor_; }
  [[nodiscard]] AsyncLocks& locks() noexcept { return locks_; }
  /// Opened when first asked for: who only wants locks needs no rights to tasks.
  [[nodiscard]] asio::awaitable<AsyncTasks> tasks();
  [[nodiscard]] const TaskOptions& task_options() const noexcept { return task_options_; }

  // By id alone, as those of AsyncLocks, but with the engine's word for what it did not find.
  [[nodiscard]] asio::awaitable<ReleaseOutcome> release(LockId id);
  [[nodiscard]] asio::awaitable<ExtendOutcome> extend(LockId id, Ttl ttl);

 private:
  template <class T, class Request>
  [[nodiscard]] asio::awaitable<T> ask(void (LockBackend::*operation)(Request, std::stop_token, Done<T>),
                                       Request request);

  asio::any_io_executor executor_;
  Holdfast holdfast_;
  TaskOptions task_options_;
  AsyncLocks locks_;
  std::optional<AsyncTasks> tasks_;
  asio::thread_pool blocking_{1};  ///< opening an engine blocks, and so do operations of some
};

}  // namespace holdfast::cli::rpc
