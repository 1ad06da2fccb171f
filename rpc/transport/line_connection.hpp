#pragma once

#include <asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/session/session.hpp"
#include "rpc/transport/channel.hpp"
#include "rpc/transport/line_buffer.hpp"

namespace holdfast::rpc {

/// The lines for one client, in the order they were given, written as fast as it reads.
class Outbox {
 public:
  /// `changed` is notified when bytes have been written, and when it ends.
  Outbox(Channel& channel, Event& changed) noexcept : channel_(channel), changed_(changed) {}

  /// Adds a newline. `grants`: as in Session::Send.
  void push(std::string_view line, const Grants& grants = {});
  [[nodiscard]] std::size_t unwritten_bytes() const noexcept {
    return waiting_.size() + being_written_.size() - already_;
  }
  /// What the lines that have not been written name. (Whether a written line was read is unknown.)
  [[nodiscard]] Grants undelivered() const;

  /// No more lines: write_all() returns when all are written.
  void finish();
  /// Drops the lines that are left, and all that come.
  void drop();

  /// Returns at the end; false if some lines were dropped.
  [[nodiscard]] asio::awaitable<bool> write_all();

 private:
  struct Undelivered {
    std::uint64_t end;  ///< of its line, counted from the first byte of all
    Grants grants;
  };

  Channel& channel_;
  Event& changed_;
  std::string waiting_;
  std::string being_written_;
  std::size_t already_ = 0;  ///< of being_written_
  std::uint64_t pushed_ = 0;
  std::uint64_t written_ = 0;
  std::deque<Undelivered> undelivered_;
  bool finished_ = false;
  bool dropped_ = false;
};

/// A session over a channel, a line for each message: from the client's first byte to its last answer.
///
/// It ends when the client sends no more (its requests are still answered), when the client does not read its
/// answers any more, or at stop(); in the last two cases requests that wait are cancelled. A change on its
/// way is finished in all cases. Only then the client's renewed locks are released and its jobs ended: in the
/// other order a write could come after the lock it was made under.
class LineConnection : public std::enable_shared_from_this<LineConnection> {
 public:
  /// `holder`: as for Session.
  LineConnection(Service& service, Channel channel, std::string holder);

  /// Returns when the session has ended, and its locks and jobs with it. To be called once.
  [[nodiscard]] asio::awaitable<void> run();
  void stop();
  /// Why answers could not be written; empty if they could, or the client has just gone.
  [[nodiscard]] const std::string& write_error() const noexcept { return channel_.write_error(); }

 private:
  [[nodiscard]] asio::awaitable<void> read_all();
  [[nodiscard]] asio::awaitable<void> write_all();
  [[nodiscard]] asio::awaitable<void> watch();
  /// Returns when another request may be begun, or none any more.
  [[nodiscard]] asio::awaitable<void> wait_for_room();
  [[nodiscard]] asio::awaitable<void> wait_until_written();
  [[nodiscard]] asio::awaitable<void> handle(LineBuffer::Line line);
  void lose_client();
  [[nodiscard]] asio::awaitable<void> end_jobs();

  Service& service_;
  Channel channel_;
  std::shared_ptr<Session> session_;
  Outbox outbox_;
  std::size_t unread_bytes_ = 0;  ///< that the client had sent when it went
  bool gone_ = false;
  bool written_ = false;
};

}  // namespace holdfast::rpc
