#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::rpc {

/// The two directions to one client: a socket, or whatever stdin and stdout are (pipes, sockets, a terminal,
/// files). Descriptors are waited for and then read or written; they are not made non-blocking, which would
/// affect all processes that share them: a shell's terminal, stderr.
class Channel {
 public:
  /// `in` and `out` are different descriptors, though they may be of the same file.
  Channel(const asio::any_io_executor& executor, posix::Descriptor in, posix::Descriptor out);

  struct Read {
    std::size_t bytes = 0;
    bool ended = false;  ///< neither bytes nor an end: interrupted by stop_reading
  };
  [[nodiscard]] asio::awaitable<Read> read(std::span<char> buffer);
  /// Whether read() would return at once.
  [[nodiscard]] bool readable() noexcept;
  /// How much has been sent and not been read yet; 0 where that is unknown.
  [[nodiscard]] std::size_t unread_bytes() noexcept;
  void stop_reading();

  /// Waits for room, writes as much as fits and returns how much that was. Nothing after stop_writing, or if
  /// writing fails, which write_error() explains.
  [[nodiscard]] asio::awaitable<std::optional<std::size_t>> write(std::string_view bytes);
  void stop_writing();
  /// Why a write failed; empty if the reader has gone, which needs no explanation.
  [[nodiscard]] const std::string& write_error() const noexcept { return write_error_; }

  /// Returns when the reader has gone (true), or at stop_writing() or close() (false). The end of the input
  /// is no such sign: `printf ... | holdfast rpc` expects its answers.
  [[nodiscard]] asio::awaitable<bool> gone();
  /// Whether the reader has gone by now. False for a file.
  [[nodiscard]] bool reader_is_gone() noexcept;

  void close();

 private:
  asio::posix::stream_descriptor in_;
  asio::posix::stream_descriptor out_;
  bool in_is_socket_;
  bool out_is_socket_;
  std::string write_error_;
};

}  // namespace holdfast::rpc
