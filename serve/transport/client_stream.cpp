#include "serve/transport/client_stream.hpp"

#include <algorithm>
#include <array>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <utility>

#include "serve/http/limits.hpp"

namespace holdfast::serve {

ClientStream::ClientStream(Socket socket, asio::ssl::context* tls)
    : socket_(std::move(socket)), limit_(socket_.get_executor()) {
  if (tls != nullptr) tls_.emplace(socket_, *tls);
}

void ClientStream::limit(std::chrono::steady_clock::duration time) {
  limit_.expires_after(time);
  limit_.async_wait([this](const asio::error_code& cancelled) {
    // One that was set since may have come too late to cancel this one.
    if (!cancelled && limit_.expiry() <= std::chrono::steady_clock::now()) close();
  });
}

void ClientStream::lift_limit() {
  limit_.expires_at(asio::steady_timer::time_point::max());
}

asio::awaitable<bool> ClientStream::handshake() {
  if (!tls_) co_return true;
  asio::error_code error;
  co_await tls_->async_handshake(asio::ssl::stream_base::server,
                                 asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

asio::awaitable<std::size_t> ClientStream::read(std::span<char> buffer) {
  asio::error_code error;
  std::size_t bytes = 0;
  const auto into = asio::buffer(buffer.data(), buffer.size());
  if (tls_) {
    bytes = co_await tls_->async_read_some(into, asio::redirect_error(asio::use_awaitable, error));
  } else {
    bytes = co_await socket_.async_read_some(into, asio::redirect_error(asio::use_awaitable, error));
  }
  co_return error ? 0 : bytes;
}

asio::awaitable<bool> ClientStream::write(std::string_view bytes) {
  asio::error_code error;
  const auto from = asio::buffer(bytes.data(), bytes.size());
  if (tls_) {
    co_await asio::async_write(*tls_, from, asio::redirect_error(asio::use_awaitable, error));
  } else {
    co_await asio::async_write(socket_, from, asio::redirect_error(asio::use_awaitable, error));
  }
  co_return !error;
}

asio::awaitable<void> ClientStream::finish() {
  limit(linger_timeout);
  asio::error_code error;
  if (tls_) {
    co_await tls_->async_shutdown(asio::redirect_error(asio::use_awaitable, error));
  } else {
    (void)socket_.shutdown(Socket::shutdown_send, error);
    std::array<char, 4096> unread{};
    std::size_t budget = std::size_t{256} * 1024;
    while (budget > 0) {
      const auto bytes = co_await read(unread);
      if (bytes == 0) break;
      budget -= std::min(budget, bytes);
    }
  }
  close();
}

void ClientStream::close() {
  limit_.cancel();
  asio::error_code ignored;
  (void)socket_.close(ignored);
}

}  // namespace holdfast::serve
