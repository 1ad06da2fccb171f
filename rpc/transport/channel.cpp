#include "rpc/transport/channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <climits>
#include <cstring>

namespace holdfast::rpc {
namespace {

using asio::posix::stream_descriptor;

bool is_socket(int fd) noexcept {
  struct stat status{};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

stream_descriptor taken_over(const asio::any_io_executor& executor, posix::Descriptor from) {
  const int fd = from.get();
  stream_descriptor descriptor(executor, fd);
  (void)from.release();
  // Asio makes a descriptor non-blocking before its first wait, unless it believes that it is already. So let
  // it believe that, and restore the mode.
  const int mode = fcntl(fd, F_GETFL);
  asio::error_code ignored;
  (void)descriptor.native_non_blocking(true, ignored);
  if (mode >= 0) fcntl(fd, F_SETFL, mode);
  return descriptor;
}

/// False if it was cancelled. A descriptor that cannot be waited for (a file, /dev/null) is always ready.
asio::awaitable<bool> ready(stream_descriptor& descriptor, stream_descriptor::wait_type what) {
  asio::error_code error;
  co_await descriptor.async_wait(what, asio::redirect_error(asio::use_awaitable, error));
  co_return !error || error == asio::error::operation_not_supported;
}

short poll_now(int fd, short events) noexcept {
  pollfd one{fd, events, 0};
  return poll(&one, 1, 0) > 0 ? one.revents : short{0};
}

}  // namespace

Channel::Channel(const asio::any_io_executor& executor, posix::Descriptor in, posix::Descriptor out)
    : in_(taken_over(executor, std::move(in))),
      out_(taken_over(executor, std::move(out))),
      in_is_socket_(is_socket(in_.native_handle())),
      out_is_socket_(is_socket(out_.native_handle())) {}

asio::awaitable<Channel::Read> Channel::read(std::span<char> buffer) {
  while (true) {
    const bool may_read = co_await ready(in_, stream_descriptor::wait_read);
    if (!may_read) co_return Read{};
    const int fd = in_.native_handle();
    // Asio may report input that has been read since; then this would block.
    if (!in_is_socket_ && poll_now(fd, POLLIN) == 0) continue;
    const auto got = in_is_socket_ ? recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT)
                                   : ::read(fd, buffer.data(), buffer.size());
    if (got > 0) co_return Read{.bytes = static_cast<std::size_t>(got)};
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    co_return Read{.ended = true};  // after any error, too
  }
}

bool Channel::readable() noexcept {
  return in_.is_open() && poll_now(in_.native_handle(), POLLIN) != 0;
}

std::size_t Channel::unread_bytes() noexcept {
  int bytes = 0;
  const bool known = in_.is_open() && ioctl(in_.native_handle(), FIONREAD, &bytes) == 0;
  return known && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

void Channel::stop_reading() {
  asio::error_code ignored;
  (void)in_.cancel(ignored);
}

asio::awaitable<std::optional<std::size_t>> Channel::write(std::string_view bytes) {
  // Most often there is room: waiting first would cost three system calls for each answer.
  for (bool may_write = out_.is_open(); may_write;
       may_write = co_await ready(out_, stream_descriptor::wait_write)) {
    const int fd = out_.native_handle();
    if (!out_is_socket_ && poll_now(fd, POLLOUT) == 0) continue;
    // A pipe that is ready takes PIPE_BUF bytes without blocking.
    const auto put = out_is_socket_
                         ? send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                         : ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
    if (put >= 0) co_return static_cast<std::size_t>(put);
    if (errno == EAGAIN || errno == EINTR) continue;
    if (errno != EPIPE && errno != ECONNRESET) write_error_ = std::strerror(errno);
    co_return std::nullopt;
  }
  co_return std::nullopt;
}

void Channel::stop_writing() {
  asio::error_code ignored;
  (void)out_.cancel(ignored);
}

asio::awaitable<bool> Channel::gone() {
  asio::error_code error;
  co_await out_.async_wait(stream_descriptor::wait_error, asio::redirect_error(asio::use_awaitable, error));
  co_return !error && reader_is_gone();
}

bool Channel::reader_is_gone() noexcept {
  // A file has no reader that could go, and poll() reports none.
  return out_.is_open() && (poll_now(out_.native_handle(), 0) & (POLLERR | POLLHUP)) != 0;
}

void Channel::close() {
  asio::error_code ignored;
  (void)in_.close(ignored);
  (void)out_.close(ignored);
}

}  // namespace holdfast::rpc
