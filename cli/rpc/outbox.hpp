#pragma once

#include <asio/awaitable.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "rpc/channel.hpp"
#include "rpc/event.hpp"

namespace holdfast::cli::rpc {

/// The lines for one client, in the order they were given, written as fast as it reads.
class Outbox {
 public:
  /// `changed` is notified when bytes have been written, and when it ends.
  Outbox(Channel& channel, Event& changed) noexcept : channel_(channel), changed_(changed) {}

  /// A newline is added.
  void push(std::string_view line);
  [[nodiscard]] std::size_t unwritten_bytes() const noexcept {
    return waiting_.size() + being_written_.size();
  }
  /// Nothing more will come: write_all() returns when all is written.
  void finish();
  /// Nobody reads: what is there and what comes is dropped.
  void drop();

  /// Returns at the end; false if that came too early.
  [[nodiscard]] asio::awaitable<bool> write_all();

 private:
  Channel& channel_;
  Event& changed_;
  std::string waiting_;
  std::string being_written_;
  bool finished_ = false;
  bool dropped_ = false;
};

}  // namespace holdfast::cli::rpc
