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
  [[nodiscard]] asio::awaitable<Tasks> tasks();

 private:
  asio::any_io_executor executor_;
  Holdfast holdfast_;
  TaskOptions task_options_;
  AsyncLocks locks_;
  std::optional<Tasks> tasks_;
  asio::thread_pool opening_{1};  ///< which blocks
};

}  // namespace holdfast::cli::rpc
