#include "serve/transport/connection.hpp"

#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/this_coro.hpp>
#include <utility>

#include "serve/http/limits.hpp"

namespace holdfast::serve {
namespace {

/// Keeps the connection alive while a part of it runs beside the others.
asio::awaitable<void> keeping_alive(std::shared_ptr<Connection> connection, asio::awaitable<void> part) {
  co_await std::move(part);
  (void)connection;
}

Response refusal_of(int status) {
  switch (status) {
    case 413:
      return error_response(413, "TooLarge", "the body is longer than 16384 bytes");
    case 431:
      return error_response(431, "TooLarge", "the header is longer than 8192 bytes");
    default:
      return error_response(400, "BadRequest", "this is not a valid HTTP request");
  }
}

}  // namespace

Connection::Connection(RequestHandler& handler, ClientStream::Socket socket, asio::ssl::context* tls,
                       std::string peer)
    : handler_(handler), stream_(std::move(socket), tls), peer_(std::move(peer)) {}

void Connection::close() {
  waiting_since_ = not_waiting;  // it makes room already
  if (events_) events_->end();
  stream_.close();
}

asio::awaitable<bool> Connection::read_request() {
  std::array<char, 4096> buffer{};
  bool begun = false;
  if (unread_.empty()) stream_.limit(idle_timeout);
  waiting_since_ = std::chrono::steady_clock::now();
  while (true) {
    if (!unread_.empty()) {
      if (!std::exchange(begun, true)) stream_.limit(request_timeout);
      // What the parser does not use is the begin of a line: it comes again with the rest of that line.
      while (!reader_.complete() && !reader_.refusal()) {
        const auto used = reader_.put(unread_);
        unread_.erase(0, used);
        if (used == 0 || unread_.empty()) break;
      }
      if (reader_.complete()) {
        waiting_since_ = not_waiting;
        co_return true;
      }
      if (const auto status = reader_.refusal()) {
        const bool sent = co_await send(refusal_of(*status), false);
        if (sent) co_await stream_.finish();
        co_return false;
      }
    }
    const auto bytes = co_await stream_.read(buffer);
    if (bytes == 0) co_return false;
    unread_.append(buffer.data(), bytes);
  }
}

asio::awaitable<bool> Connection::send(Response response, bool keep_alive, bool with_body) {
  stream_.limit(write_timeout);
  waiting_since_ = std::chrono::steady_clock::now();
  auto text = head_of(response, keep_alive);
  if (with_body) text += response.body;
  co_return co_await stream_.write(text);
}

asio::awaitable<void> Connection::watch_client() {
  std::array<char, 256> buffer{};
  (void)co_await stream_.read(buffer);
  close();
}

asio::awaitable<void> Connection::stream_events(std::function<bool()> still_allowed) {
  events_ = std::make_unique<LiveFeed::Stream>(*handler_.feed());
  const auto executor = co_await asio::this_coro::executor;
  stream_.limit(write_timeout);
  const auto head = event_stream_head();
  bool alive = co_await stream_.write(head);
  stream_.lift_limit();
  if (alive) asio::co_spawn(executor, keeping_alive(shared_from_this(), watch_client()), asio::detached);
  auto check_at = std::chrono::steady_clock::now() + heartbeat_interval;
  while (alive) {
    const auto message = co_await events_->next();
    if (!message) break;
    if (const auto now = std::chrono::steady_clock::now(); still_allowed && now >= check_at) {
      if (!still_allowed()) break;
      check_at = now + heartbeat_interval;
    }
    stream_.limit(write_timeout);
    alive = co_await stream_.write(*message);
    stream_.lift_limit();
  }
  events_.reset();
}

asio::awaitable<void> Connection::run() {
  stream_.limit(request_timeout);
  waiting_since_ = std::chrono::steady_clock::now();
  bool alive = co_await stream_.handshake();
  while (alive) {
    alive = co_await read_request();
    if (!alive) break;
    stream_.lift_limit();  // the store has limits of its own
    auto request = reader_.take();
    const bool keep_alive = request.keep_alive;
    const bool wants_body = request.wants_body;
    auto answer = co_await handler_.answer(std::move(request), peer_);
    if (answer.event_stream && wants_body) {
      co_await stream_events(std::move(answer.still_allowed));
      break;
    }
    alive = co_await send(std::move(answer.response), keep_alive, wants_body);
    if (alive && !keep_alive) {
      co_await stream_.finish();
      break;
    }
  }
  close();
}

}  // namespace holdfast::serve
