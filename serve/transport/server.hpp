#pragma once

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/signal_set.hpp>
#include <asio/ssl/context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "rpc/transport/unix_socket.hpp"
#include "serve/site/site.hpp"
#include "serve/transport/connection.hpp"

namespace holdfast::serve {

/// The HTTP server: one listener, one thread for all connections.
class Server {
 public:
  struct Settings {
    Site::Settings site;
    /// PEM files; both or none.
    std::string certificate_file = {};
    std::string key_file = {};
    std::vector<int> stop_signals = {};
    /// Called for a second signal: the process should exit.
    std::function<void(int signal)> on_second_signal = {};
  };

  /// Listens. Throws Error(InvalidArgument) if the address cannot be used, or the certificate is invalid.
  Server(Holdfast store, Settings settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens: with the port that the system chose, if 0 was asked for.
  [[nodiscard]] const ListenAddress& address() const noexcept { return address_; }
  /// Serves until a signal comes, or request_stop() is called.
  void run();
  /// Ends run(), from any thread.
  void request_stop();

 private:
  void load_certificate();
  void listen();
  void stop();
  void admit(ClientStream::Socket socket, std::string peer);
  [[nodiscard]] bool make_room();
  [[nodiscard]] asio::awaitable<void> accept_tcp();
  [[nodiscard]] asio::awaitable<void> accept_unix();

  Settings settings_;
  ListenAddress address_;
  asio::io_context io_{1};
  std::optional<asio::ssl::context> tls_;
  asio::ip::tcp::acceptor acceptor_{io_};
  std::unique_ptr<rpc::UnixSocket> unix_socket_;
  asio::posix::stream_descriptor acceptable_{io_};  ///< a duplicate of its descriptor, for Asio
  asio::signal_set signals_{io_};
  asio::steady_timer stop_timer_{io_};
  bool stopping_ = false;
  std::optional<Site> site_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
};

}  // namespace holdfast::serve
