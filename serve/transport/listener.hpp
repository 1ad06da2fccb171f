#pragma once

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "rpc/transport/unix_socket.hpp"
#include "serve/access/listen_address.hpp"
#include "serve/site/request_handler.hpp"
#include "serve/transport/connection.hpp"

namespace holdfast::serve {

/// Accepts HTTP connections at one address and passes their requests to a handler. Used by the thread that
/// runs the context.
class Listener {
 public:
  struct Settings {
    ListenAddress address;
    /// PEM files; both or none.
    std::string certificate_file = {};
    std::string key_file = {};
    /// The option that chose the address, for messages.
    std::string option = "--listen";
  };

  /// Listens. Throws Error(InvalidArgument) if the address cannot be used, or the certificate is invalid.
  Listener(asio::io_context& io, Settings settings);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// With the port that the system chose, if 0 was asked for.
  [[nodiscard]] const ListenAddress& address() const noexcept { return address_; }
  /// Begins to accept. The handler outlives the listener.
  void start(RequestHandler& handler);
  /// Accepts no more, and closes the connections. Those that wait for a store answer first. Returns true if
  /// none is left; else `on_closed` is called when the last has ended.
  bool stop(std::function<void()> on_closed = {});

 private:
  void load_certificate();
  void listen();
  void admit(ClientStream::Socket socket, std::string peer);
  [[nodiscard]] bool make_room();
  [[nodiscard]] asio::awaitable<void> accept_tcp();
  [[nodiscard]] asio::awaitable<void> accept_unix();

  asio::io_context& io_;
  Settings settings_;
  ListenAddress address_;
  RequestHandler* handler_ = nullptr;
  std::optional<asio::ssl::context> tls_;
  asio::ip::tcp::acceptor acceptor_{io_};
  std::unique_ptr<rpc::UnixSocket> unix_socket_;
  asio::posix::stream_descriptor acceptable_{io_};  ///< a duplicate of its descriptor, for Asio
  bool stopping_ = false;
  std::function<void()> on_closed_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
};

}  // namespace holdfast::serve
