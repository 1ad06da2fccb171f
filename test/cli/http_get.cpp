#include "http_get.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "support/eventually.hpp"

namespace holdfast::test {
namespace {

HttpResponse exchange(int fd, const std::string& name, const std::string& path, const std::string& fields) {
  timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const std::string host = fields.starts_with("Host:") ? "" : "Host: " + name + "\r\n";
  const auto request = "GET " + path + " HTTP/1.1\r\n" + host + fields + "Connection: close\r\n\r\n";
  (void)send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string all;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
    all.append(buffer.data(), static_cast<std::size_t>(size));
  }
  ::close(fd);
  const auto end_of_head = all.find("\r\n\r\n");
  if (!all.starts_with("HTTP/1.1 ") || end_of_head == std::string::npos) return {};
  return {.status = std::stoi(all.substr(9, 3)), .body = all.substr(end_of_head + 4)};
}

}  // namespace

HttpResponse http_get(const std::string& socket_path, const std::string& path, const std::string& fields) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  (void)eventually(
      [&] { return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0; });
  return exchange(fd, "localhost", path, fields);
}

HttpResponse http_get(std::uint16_t port, const std::string& path, const std::string& fields) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return exchange(fd, "127.0.0.1:" + std::to_string(port), path, fields);
}

}  // namespace holdfast::test
