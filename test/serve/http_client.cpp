#include "serve/http_client.hpp"

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/write.hpp>

namespace holdfast::test {
namespace {

void bound_waits(int fd) {
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

std::string HttpAnswer::field(const std::string& name) const {
  const auto start = head.find("\r\n" + name + ": ");
  if (start == std::string::npos) return {};
  const auto value = start + name.size() + 4;
  return head.substr(value, head.find("\r\n", value) - value);
}

HttpClient::HttpClient(std::uint16_t port) {
  socket_.connect(asio::ip::tcp::endpoint(asio::ip::make_address("127.0.0.1"), port));
  bound_waits(socket_.native_handle());
}

HttpClient::HttpClient(const std::string& unix_path) {
  socket_.connect(asio::local::stream_protocol::endpoint(unix_path));
  bound_waits(socket_.native_handle());
}

HttpClient::~HttpClient() = default;

bool HttpClient::start_tls(const std::string& ca_file) {
  context_.emplace(asio::ssl::context::tls_client);
  context_->load_verify_file(ca_file);
  context_->set_verify_mode(asio::ssl::verify_peer);
  tls_.emplace(socket_, *context_);
  asio::error_code error;
  (void)tls_->handshake(asio::ssl::stream_base::client, error);
  return !error;
}

void HttpClient::send(const std::string& bytes) {
  asio::error_code ignored;  // the answer shows what became of it
  if (tls_) {
    asio::write(*tls_, asio::buffer(bytes), ignored);
  } else {
    asio::write(socket_, asio::buffer(bytes), ignored);
  }
}

bool HttpClient::read_more() {
  std::array<char, 4096> buffer{};
  asio::error_code error;
  const auto bytes =
      tls_ ? tls_->read_some(asio::buffer(buffer), error) : socket_.read_some(asio::buffer(buffer), error);
  received_.append(buffer.data(), bytes);
  return !error;
}

std::optional<std::string> HttpClient::read_until(const std::string& text) {
  std::size_t end = 0;
  while ((end = received_.find(text)) == std::string::npos) {
    if (!read_more()) return std::nullopt;
  }
  auto taken = received_.substr(0, end + text.size());
  received_.erase(0, taken.size());
  return taken;
}

HttpAnswer HttpClient::answer() {
  HttpAnswer answer;
  const auto head = read_until("\r\n\r\n");
  if (!head) return answer;
  answer.head = *head;
  answer.status = std::stoi(head->substr(head->find(' ') + 1));
  const auto length = answer.field("Content-Length");
  const auto size = length.empty() ? 0 : std::stoul(length);
  while (received_.size() < size) {
    if (!read_more()) break;
  }
  answer.body = received_.substr(0, size);
  received_.erase(0, answer.body.size());
  return answer;
}

bool HttpClient::is_closed() {
  while (read_more()) {
  }
  return true;
}

}  // namespace holdfast::test
