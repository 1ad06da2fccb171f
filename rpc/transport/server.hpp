#pragma once

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "rpc/session/service.hpp"
#include "rpc/transport/line_connection.hpp"
#include "rpc/transport/unix_socket.hpp"

namespace holdfast::rpc {

/// One thread, one engine, and a connection for each client. Ends when its only client, on stdin and stdout,
/// has ended; and on a signal: then no client is accepted, the sessions stop, and their locks are released.
class Server {
 public:
  struct Settings {
    QueueOptions queues;  ///< its `tasks` are those of ordinary tasks too
    std::vector<int> stop_signals = {};
    /// Called for a second signal, and if engines do not answer within stop_timeout: the process should exit.
    std::function<void(int signal)> on_second_signal;
    std::function<void()> on_stop_timeout;
    /// Called with the number of connected clients when it has changed, on the thread of run(). May be empty.
    std::function<void(std::size_t)> on_client_count = {};
  };

  Server(Holdfast holdfast, Settings settings);

  // One of these, then run().
  void connect_stdio();
  void listen(std::unique_ptr<UnixSocket> socket);
  /// Returns when the last session has ended: the error, if answers to stdout could not be written.
  std::string run();

 private:
  void expect_signals();
  void stop();
  void admit(posix::Descriptor client);
  void begin(const std::shared_ptr<LineConnection>& connection);
  void report_client_count() const;
  /// Cancels what keeps run() from returning once the last session has ended and no other can begin.
  void end_if_idle();
  [[nodiscard]] asio::awaitable<void> accept_all();

  asio::io_context io_;
  Settings settings_;
  Service service_;
  std::unique_ptr<UnixSocket> socket_;
  asio::posix::stream_descriptor acceptable_;  ///< a duplicate of the socket's descriptor, for Asio
  asio::signal_set signals_;
  asio::steady_timer stop_timer_;
  std::shared_ptr<LineConnection> stdio_;
  std::unordered_set<std::shared_ptr<LineConnection>> connections_;
};

}  // namespace holdfast::rpc
