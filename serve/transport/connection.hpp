#pragma once

#include <asio/awaitable.hpp>
#include <asio/ssl/context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/request_reader.hpp"
#include "serve/site/live_feed.hpp"
#include "serve/site/request_handler.hpp"
#include "serve/transport/client_stream.hpp"

namespace holdfast::serve {

/// One client: its requests one after another, or an event stream until one side ends it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(RequestHandler& handler, ClientStream::Socket socket, asio::ssl::context* tls, std::string peer);

  /// Returns when the connection has been closed.
  [[nodiscard]] asio::awaitable<void> run();
  /// Since when it has been waiting for its client: for a request, for the rest of one, or to take a
  /// response; `max` if the client waits, or follows the events. What waits longest makes room for others: a
  /// client that sends its requests byte by byte, or reads no response, must not keep them out.
  [[nodiscard]] std::chrono::steady_clock::time_point waiting_since() const noexcept {
    return waiting_since_;
  }
  void close();

 private:
  [[nodiscard]] asio::awaitable<bool> read_request();
  [[nodiscard]] asio::awaitable<bool> send(Response response, bool keep_alive, bool with_body = true);
  [[nodiscard]] asio::awaitable<void> stream_events(std::function<bool()> still_allowed);
  /// Returns when the client has closed the connection, or sent what it should not.
  [[nodiscard]] asio::awaitable<void> watch_client();

  static constexpr auto not_waiting = std::chrono::steady_clock::time_point::max();

  RequestHandler& handler_;
  ClientStream stream_;
  std::string peer_;
  RequestReader reader_;
  std::string unread_;  ///< received, and not part of a request yet
  std::chrono::steady_clock::time_point waiting_since_ = not_waiting;
  std::unique_ptr<LiveFeed::Stream> events_;
};

}  // namespace holdfast::serve
