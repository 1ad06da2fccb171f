#include "rpc/transport/line_connection.hpp"

#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/steady_timer.hpp>
#include <span>

#include "rpc/session/limits.hpp"

namespace holdfast::rpc {
namespace {

/// Runs a part of a connection beside the others, and keeps the connection alive meanwhile.
asio::awaitable<void> keeping(std::shared_ptr<LineConnection> connection, asio::awaitable<void> part) {
  co_await std::move(part);
  (void)connection;
}

bool is_blank(std::string_view line) noexcept {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

}  // namespace

void Outbox::push(std::string_view line, const Grants& grants) {
  pushed_ += line.size() + 1;
  if (!grants.locks.empty() || !grants.jobs.empty()) {
    undelivered_.push_back({.end = pushed_, .grants = grants});
  }
  if (dropped_) return;
  waiting_.append(line).append("\n");
  changed_.notify();
}

Grants Outbox::undelivered() const {
  Grants all;
  for (const auto& one : undelivered_) all.append(one.grants);
  return all;
}

void Outbox::finish() {
  finished_ = true;
  changed_.notify();
}

void Outbox::drop() {
  dropped_ = true;
  waiting_.clear();
  changed_.notify();
}

asio::awaitable<bool> Outbox::write_all() {
  while (!dropped_) {
    if (already_ == being_written_.size()) {
      being_written_.clear();
      already_ = 0;
      being_written_.swap(waiting_);
    }
    if (being_written_.empty()) {
      if (finished_) co_return true;
      co_await changed_.wait();
      continue;
    }
    const auto bytes = co_await channel_.write(std::string_view(being_written_).substr(already_));
    if (!bytes) break;
    already_ += *bytes;
    written_ += *bytes;
    while (!undelivered_.empty() && undelivered_.front().end <= written_) undelivered_.pop_front();
    changed_.notify();
  }
  being_written_.clear();
  already_ = 0;
  drop();
  co_return false;
}

LineConnection::LineConnection(Service& service, Channel channel, std::string holder)
    : service_(service),
      channel_(std::move(channel)),
      session_(std::make_shared<Session>(
          service, [this](std::string_view text, const Grants& grants) { outbox_.push(text, grants); },
          std::move(holder))),
      outbox_(channel_, session_->changed()) {}

asio::awaitable<void> LineConnection::run() {
  const auto self = shared_from_this();
  asio::co_spawn(service_.executor(), keeping(self, write_all()), rethrow);
  asio::co_spawn(service_.executor(), keeping(self, watch()), rethrow);
  co_await read_all();
  while (!session_->idle()) co_await session_->changed().wait();
  co_await end_jobs();
  co_await session_->held().release_all();
  outbox_.finish();
  co_await wait_until_written();
  // Nothing else could release these: no client knows their ids.
  for (const auto& lock_id : outbox_.undelivered().locks)
    service_.locks().blocking().release_in_background(lock_id);
  channel_.close();
}

asio::awaitable<void> LineConnection::end_jobs() {
  // A client that vanished may have died of its task, so the attempt counts. Not if the client closed the
  // connection in order, nor if the sidecar stops, perhaps together with its clients, nor for jobs that the
  // client never heard of.
  const bool died = (gone_ || channel_.reader_is_gone()) && !session_->stopping();
  const auto unknown = outbox_.undelivered().jobs;
  co_await session_->jobs().end_all(died ? HeldJobs::Worker::died : HeldJobs::Worker::left, unknown);
}

asio::awaitable<void> LineConnection::wait_until_written() {
  asio::steady_timer timeout(service_.executor(), asio::steady_timer::time_point::max());
  bool limited = false;
  while (!written_) {
    if (session_->stopping() && !limited) {
      limited = true;
      timeout.expires_after(last_read_timeout);
      timeout.async_wait([self = shared_from_this()](const asio::error_code& cancelled) {
        if (!cancelled) self->lose_client();
      });
    }
    co_await session_->changed().wait();
  }
}

void LineConnection::stop() {
  session_->stop();
  channel_.stop_reading();
}

void LineConnection::lose_client() {
  if (gone_) return;
  gone_ = true;
  outbox_.drop();
  // What the client had sent is carried out, but no more: another process may hold the other end of a pipe
  // open, and send forever.
  unread_bytes_ = channel_.unread_bytes();
  channel_.stop_reading();
  channel_.stop_writing();
  session_->lose_client();
}

asio::awaitable<void> LineConnection::watch() {
  const bool client_is_gone = co_await channel_.gone();
  if (client_is_gone) lose_client();
}

asio::awaitable<void> LineConnection::write_all() {
  const bool all_written = co_await outbox_.write_all();
  if (!all_written) lose_client();
  written_ = true;
  session_->changed().notify();
}

asio::awaitable<void> LineConnection::wait_for_room() {
  const auto overloaded = [this] {
    return session_->busy() || outbox_.unwritten_bytes() > max_unwritten_bytes;
  };
  while (!session_->stopping() && overloaded()) co_await session_->changed().wait();
}

asio::awaitable<void> LineConnection::read_all() {
  LineBuffer lines(max_line_bytes);
  constexpr std::size_t at_once = std::size_t{64} * 1024;
  const auto buffer = std::make_unique<std::array<char, at_once>>();
  bool ended = false;
  while (true) {
    co_await wait_for_room();
    if (session_->stopping()) co_return;
    if (auto line = lines.next()) {
      co_await handle(*std::move(line));
    } else if (ended) {
      if (auto rest = lines.rest()) co_await handle(*std::move(rest));
      co_return;
    } else if (gone_ && (unread_bytes_ == 0 || !channel_.readable())) {
      ended = true;
    } else {
      const auto into = std::span(*buffer).first(gone_ ? std::min(at_once, unread_bytes_) : at_once);
      const auto read = co_await channel_.read(into);
      ended = read.ended;
      if (gone_) unread_bytes_ -= std::min(unread_bytes_, read.bytes);
      lines.append({buffer->data(), read.bytes});
    }
  }
}

asio::awaitable<void> LineConnection::handle(LineBuffer::Line line) {
  if (line.too_long) {
    session_->begin(refusal_of_long_line(max_line_bytes), nullptr);
    co_return;
  }
  if (is_blank(line.text)) co_return;
  const auto incoming = parse_line(line.text);
  line.text = {};
  BatchPtr batch;
  if (incoming.batch) {
    batch = std::make_shared<Batch>();
    batch->missing = incoming.messages.size();
  }
  for (const auto& message : incoming.messages) {
    co_await wait_for_room();
    session_->begin(message, batch);
  }
}

}  // namespace holdfast::rpc
