#pragma once

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/descriptor.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "rpc/listening_socket.hpp"
#include "rpc/service.hpp"
#include "rpc/session.hpp"

namespace holdfast::cli::rpc {

/// The sidecar: one thread, one engine, and a session for each client. Ends by itself when its only client,
/// on stdin and stdout, has; and on a signal: then nobody new is let in, the sessions are told to stop, and
/// their locks are released. A second signal does not wait for that.
class Server {
 public:
  Server(Holdfast holdfast, const TaskOptions& task_options);

  /// Each returns the exit code.
  int serve_stdio();
  int serve(std::unique_ptr<ListeningSocket> socket);

 private:
  void run();
  void expect_signals();
  void stop();
  void admit(Descriptor client);
  void begin(const std::shared_ptr<Session>& session);
  /// What keeps run() from returning, when the last session has ended and no other will begin.
  void end_if_over();
  [[nodiscard]] asio::awaitable<void> accept_all();

  asio::io_context io_;
  Service service_;
  std::unique_ptr<ListeningSocket> socket_;
  asio::posix::stream_descriptor clients_to_come_;
  asio::signal_set signals_;
  asio::steady_timer time_is_up_;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
};

}  // namespace holdfast::cli::rpc
