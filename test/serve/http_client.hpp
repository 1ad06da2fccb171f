#pragma once

#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace holdfast::test {

/// What came back.
struct HttpAnswer {
  int status = 0;  ///< 0: the connection was closed without an answer
  std::string head;
  std::string body;
  /// Of a header field; empty if there is none.
  [[nodiscard]] std::string field(const std::string& name) const;
};

/// A connection that sends what it is told, byte by byte, and knows little of HTTP. Waits are bounded.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port);
  explicit HttpClient(const std::string& unix_path);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// From now on with TLS, trusting this CA; false if the server cannot be verified.
  [[nodiscard]] bool start_tls(const std::string& ca_file);
  void send(const std::string& bytes);
  /// The next answer, whose length must be known.
  [[nodiscard]] HttpAnswer answer();
  /// Everything up to this text, which is taken too; empty if the connection ends before.
  [[nodiscard]] std::optional<std::string> read_until(const std::string& text);
  /// Whether the server closes the connection.
  [[nodiscard]] bool is_closed();

 private:
  using Socket = asio::generic::stream_protocol::socket;
  [[nodiscard]] bool read_more();

  asio::io_context io_;
  Socket socket_{io_};
  std::optional<asio::ssl::context> context_;
  std::optional<asio::ssl::stream<Socket&>> tls_;
  std::string received_;
};

}  // namespace holdfast::test
