#include "support/loopback.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Socket bound_to(std::uint16_t port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto address = loopback(port);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return socket;
}

/// Keeps the port from other processes that call free_loopback_port(), also while no server listens on it,
/// until this process ends. Not open if another process has it. The kernel knows the name without a file.
Socket reserved_for_this_process(std::uint16_t port) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto name = '\0' + std::string("holdfast-test-port-") + std::to_string(port);
  name.copy(address.sun_path, sizeof address.sun_path);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
  return socket;
}

void send_at_once(const Socket& socket) {
  const int yes = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Socket::reset() noexcept {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

std::uint16_t free_loopback_port() {
  static std::mt19937 random{std::random_device{}()};
  static std::vector<Socket> reserved;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::uniform_int_distribution<int> ports(12000, 32000);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<std::uint16_t>(ports(random));
    auto reservation = reserved_for_this_process(port);
    if (!reservation.is_open() || !bound_to(port).is_open()) continue;
    reserved.push_back(std::move(reservation));
    return port;
  }
  throw std::runtime_error("no free port");
}

Socket listen_on_loopback(std::uint16_t port) {
  auto socket = bound_to(port);
  if (!socket.is_open() || ::listen(socket.fd(), 128) != 0) {
    throw std::runtime_error("cannot listen on port " + std::to_string(port) + ": " + std::strerror(errno));
  }
  return socket;
}

Socket connect_to_loopback(std::uint16_t port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = loopback(port);
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  send_at_once(socket);
  return socket;
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.is_open()) send_at_once(socket);
  return socket;
}

}  // namespace holdfast::test
