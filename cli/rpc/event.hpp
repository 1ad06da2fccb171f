#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

namespace holdfast::cli::rpc {

/// Something changed: whoever waits looks again. For coroutines of one thread, which look before they wait,
/// so nothing is missed.
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

}  // namespace holdfast::cli::rpc
