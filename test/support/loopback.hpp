#pragma once

#include <cstdint>
#include <utility>

namespace holdfast::test {

/// An open descriptor, closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  /// In order (FIN), as far as everything that was received has been read.
  void close() noexcept;
  /// At once (RST); what was not sent yet is dropped.
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// A port of 127.0.0.1 that no other test gets while this process lives, so that a server may restart on it.
/// It is below the kernel's ephemeral range: the kernel could give a port from that range to any connection
/// meanwhile.
[[nodiscard]] std::uint16_t free_loopback_port();
/// Throws std::runtime_error.
[[nodiscard]] Socket listen_on_loopback(std::uint16_t port);
/// Not open if there is no listener.
[[nodiscard]] Socket connect_to_loopback(std::uint16_t port);
/// Not open if there is none to accept.
[[nodiscard]] Socket accept_from(const Socket& listener);

}  // namespace holdfast::test
