#pragma once

#include <asio/awaitable.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace holdfast::serve {

/// The connection to one client: TCP or a Unix socket, with or without TLS. Each operation has a time limit,
/// after which the connection is closed. Used by one thread.
class ClientStream {
 public:
  using Socket = asio::generic::stream_protocol::socket;

  /// `tls`: null for none; outlives the stream.
  ClientStream(Socket socket, asio::ssl::context* tls);
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  /// The time from now on until the connection is closed, whatever happens meanwhile.
  void limit(std::chrono::steady_clock::duration time);
  void lift_limit();

  /// False if the connection failed.
  [[nodiscard]] asio::awaitable<bool> handshake();
  /// Reads at least a byte; 0 at the end, or if the connection failed.
  [[nodiscard]] asio::awaitable<std::size_t> read(std::span<char> buffer);
  /// Writes all; false if the connection failed.
  [[nodiscard]] asio::awaitable<bool> write(std::string_view bytes);
  /// Sends the end, and reads what the client still sends, for a moment: a closed socket with unread bytes
  /// resets the connection, and the client may lose the response.
  [[nodiscard]] asio::awaitable<void> finish();
  void close();

 private:
  Socket socket_;
  std::optional<asio::ssl::stream<Socket&>> tls_;
  asio::steady_timer limit_;
};

}  // namespace holdfast::serve
