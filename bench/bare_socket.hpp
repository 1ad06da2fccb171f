// A connection of a bare load generator: sockets alone.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace bench {

/// Sends all that was written with one call, and takes all that has arrived with another.
class BareSocket {
 public:
  explicit BareSocket(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~BareSocket() { close(socket_); }
  BareSocket(const BareSocket&) = delete;
  BareSocket& operator=(const BareSocket&) = delete;

  /// What is to be sent.
  std::string& output() { return output_; }
  /// What has arrived; the owner removes what it has read.
  std::string& input() { return input_; }

  /// Sends the output, and waits for more input.
  void exchange() {
    for (std::size_t sent = 0; sent < output_.size();) {
      const auto n = send(socket_, output_.data() + sent, output_.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) throw std::runtime_error("cannot send");
      sent += static_cast<std::size_t>(n);
    }
    output_.clear();
    std::array<char, 65536> bytes;
    const auto n = recv(socket_, bytes.data(), bytes.size(), 0);
    if (n <= 0) throw std::runtime_error("cannot receive");
    input_.append(bytes.data(), static_cast<std::size_t>(n));
  }

 private:
  int socket_;
  std::string output_, input_;
};

}  // namespace bench
