#pragma once

#include <asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/channel.hpp"
#include "rpc/event.hpp"

namespace holdfast::cli::rpc {

/// The lines for one client, in the order they were given, written as fast as it reads.
class Outbox {
 public:
  /// `changed` is notified when bytes have been written, and when it ends.
  Outbox(Channel& channel, Event& changed) noexcept : channel_(channel), changed_(changed) {}

  /// A newline is added. `lock_ids`: of locks that nobody knows but who reads this line.
  void push(std::string_view line, const std::vector<std::string>& lock_ids = {});
  [[nodiscard]] std::size_t unwritten_bytes() const noexcept {
    return waiting_.size() + being_written_.size() - already_;
  }
  /// The lock ids of lines that have not been written. (Of those that have, nobody can tell whether they were
  /// read.)
  [[nodiscard]] std::vector<std::string> unheard() const;

  /// Nothing more will come: write_all() returns when all is written.
  void finish();
  /// Nobody reads: what is there and what comes is dropped.
  void drop();

  /// Returns at the end; false if that came too early.
  [[nodiscard]] asio::awaitable<bool> write_all();

 private:
  struct Unheard {
    std::uint64_t end;  ///< of its line, counted from the first byte of all
    std::string lock_id;
  };

  Channel& channel_;
  Event& changed_;
  std::string waiting_;
  std::string being_written_;
  std::size_t already_ = 0;  ///< of being_written_
  std::uint64_t pushed_ = 0;
  std::uint64_t written_ = 0;
  std::deque<Unheard> unheard_;
  bool finished_ = false;
  bool dropped_ = false;
};

}  // namespace holdfast::cli::rpc
