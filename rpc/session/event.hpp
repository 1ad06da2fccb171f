#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cstddef>

namespace holdfast::rpc {

/// Wakes all coroutines that wait for it. They share one thread and check their condition before they wait,
/// so no notification is missed.
class Event {
 public:
  explicit Event(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}

  void notify() { timer_.cancel(); }
  [[nodiscard]] asio::awaitable<void> wait() {
    asio::error_code cancelled;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }

 private:
  asio::steady_timer timer_;  ///< never expires
};

/// Waits for a number of completions. Outlives them.
class Countdown {
 public:
  Countdown(const asio::any_io_executor& executor, std::size_t count) : left_(count), zero_(executor) {}

  void complete_one() {
    if (--left_ == 0) zero_.notify();
  }
  [[nodiscard]] asio::awaitable<void> wait() {
    while (left_ > 0) co_await zero_.wait();
  }

 private:
  std::size_t left_;
  Event zero_;
};

}  // namespace holdfast::rpc
