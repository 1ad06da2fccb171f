#pragma once

#include <asio/awaitable.hpp>
#include <asio/ssl/context.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "serve/http/request_reader.hpp"
#include "serve/site/site.hpp"
#include "serve/transport/client_stream.hpp"

namespace holdfast::serve {

/// One client: its requests one after another, or an event stream until one side ends it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Site& site, ClientStream::Socket socket, asio::ssl::context* tls, std::string peer);

  /// Returns when the connection has been closed.
  [[nodiscard]] asio::awaitable<void> run();
  /// Since when it has been waiting for a request; `max` if it has one, or is an event stream.
  [[nodiscard]] std::chrono::steady_clock::time_point idle_since() const noexcept { return idle_since_; }
  void close();

 private:
  [[nodiscard]] asio::awaitable<bool> read_request();
  [[nodiscard]] asio::awaitable<bool> send(Response response, bool keep_alive);
  [[nodiscard]] asio::awaitable<void> stream_events();
  /// Returns when the client has closed the connection, or sent what it should not.
  [[nodiscard]] asio::awaitable<void> watch_client();

  static constexpr auto not_idle = std::chrono::steady_clock::time_point::max();

  Site& site_;
  ClientStream stream_;
  std::string peer_;
  RequestReader reader_;
  std::string unread_;  ///< received, and not part of a request yet
  std::chrono::steady_clock::time_point idle_since_ = not_idle;
  std::unique_ptr<LiveFeed::Stream> events_;
};

}  // namespace holdfast::serve
