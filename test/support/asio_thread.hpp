#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <memory>
#include <thread>

#include "sys/process.hpp"

namespace holdfast::test {

/// An io_context that a thread runs.
class AsioThread {
 public:
  AsioThread();
  /// Waits until all that is pending has completed, unless it is on that thread.
  ~AsioThread();
  AsioThread(const AsioThread&) = delete;
  AsioThread& operator=(const AsioThread&) = delete;

  [[nodiscard]] asio::io_context& context() noexcept { return *context_; }
  /// False in a forked child, where the thread is not.
  [[nodiscard]] bool is_home() const noexcept { return home_.is_here(); }

 private:
  const sys::Birthplace home_;
  std::shared_ptr<asio::io_context> context_ = std::make_shared<asio::io_context>();
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_->get_executor()};
  std::thread thread_;
};

}  // namespace holdfast::test
