#include "engine/redis/conn/stream.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace holdfast::redis {
namespace {

/// The error of a connection that is pending or established.
Error network_error(std::string what, int number, bool file_permissions = false) {
  // ETIMEDOUT is the kernel's: the peer's machine is silent. For a TCP connection, EPERM comes from a
  // firewall.
  const auto code = number == ETIMEDOUT ? ErrorCode::NetworkTimeout
                    : file_permissions && (number == EACCES || number == EPERM)
                        ? ErrorCode::AuthFailed
                        : ErrorCode::ServiceUnavailable;
  return {code, std::move(what), std::generic_category().message(number)};
}

void set_option(int fd, int level, int option, int value) noexcept {
  setsockopt(fd, level, option, &value, sizeof value);
}

constexpr int keepalive_idle_s = 15, keepalive_interval_s = 5, keepalive_probes = 3;
/// The connection ends if the peer's machine does not confirm bytes for this long: the same time as keepalive
/// needs on an idle connection.
constexpr int user_timeout_ms = 1000 * (keepalive_idle_s + keepalive_interval_s * keepalive_probes);

/// Small requests are sent at once, and a peer that vanished is noticed even on an idle connection.
void tune_tcp(int fd) noexcept {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_s);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, keepalive_probes);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms);
}

}  // namespace

Result<Address> unix_address(const std::string& path) {
  Address address;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) {
    return Error(ErrorCode::InvalidArgument, "the path of the Unix socket is too long: " + path);
  }
  std::ranges::copy(path, name.sun_path);
  std::memcpy(&address.storage, &name, sizeof name);
  address.length = sizeof name;
  return address;
}

Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port, bool numeric_only) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (numeric_only ? AI_NUMERICHOST : AI_ADDRCONFIG);
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failed != 0) {
    return Error(ErrorCode::ServiceUnavailable, "the host name cannot be resolved", gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    Address address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.length = at->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

Result<std::unique_ptr<Stream>> Stream::connect(const Address& address,
                                                std::shared_ptr<const TlsContext> tls) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return network_error("cannot create a socket", errno);
  std::unique_ptr<Stream> stream(new Stream(fd, std::move(tls)));
  if (address.family() != AF_UNIX) tune_tcp(fd);
  const auto* name = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(fd, name, address.length) != 0 && errno != EINPROGRESS) {
    return network_error("cannot connect; check the address, and that the server is running", errno,
                         address.family() == AF_UNIX);
  }
  return stream;
}

Stream::~Stream() {
  SSL_free(session_);
  if (!politely_) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    // Closing is not enough if a forked child has the descriptor too.
    const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
    [[maybe_unused]] const int reset = ::connect(fd_, &nowhere, sizeof nowhere);
  }
  close(fd_);
}

Result<Stream::Progress> Stream::establish() {
  if (stage_ == Stage::connecting) {
    int failed = 0;
    socklen_t size = sizeof failed;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0)
      return network_error("cannot connect; check the address, and that the server is running", failed);
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    if (getpeername(fd_, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return Progress::wants_write;
    if (is_connected_to_itself(peer, peer_size)) {
      return Error(ErrorCode::ServiceUnavailable,
                   "cannot connect; check the address, and that the server is running",
                   "no server listens on this port; the connection reached itself");
    }
    if (!tls_) {
      stage_ = Stage::open;
      return Progress::done;
    }
    stage_ = Stage::handshaking;
    return begin_tls();
  }
  return stage_ == Stage::handshaking ? continue_tls() : Progress::done;
}

/// A connection to a local port in the kernel's ephemeral range, where no server listens, may get that same
/// port as its local port. TCP then connects it to itself, and every request comes back as its answer. It
/// would also block the server's port.
bool Stream::is_connected_to_itself(const sockaddr_storage& peer, socklen_t peer_size) const noexcept {
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  return peer.ss_family != AF_UNIX && getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

Result<std::size_t> Stream::read(std::span<char> into) {
  if (session_ == nullptr) {
    const auto count = recv(fd_, into.data(), into.size(), 0);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::size_t{0};
    return count == 0 ? Error(ErrorCode::ServiceUnavailable, "the server closed the connection")
                      : network_error("the connection broke", errno);
  }
  const std::lock_guard lock(tls_mutex_);
  ERR_clear_error();  // or SSL_get_error would judge by an older failure
  std::size_t count = 0;
  const int result = SSL_read_ex(session_, into.data(), into.size(), &count);
  if (result == 1) return count;
  const int why = SSL_get_error(session_, result);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return std::size_t{0};
  if (why == SSL_ERROR_ZERO_RETURN) {
    return Error(ErrorCode::ServiceUnavailable, "the server closed the connection");
  }
  return tls_error(result, "the connection broke");
}

bool Stream::has_more() const {
  if (session_ == nullptr) return false;
  const std::lock_guard lock(tls_mutex_);
  return SSL_has_pending(session_) == 1;
}

bool Stream::is_quiet() const {
  char byte = 0;
  if (session_ == nullptr) {
    return recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
  }
  const std::lock_guard lock(tls_mutex_);
  ERR_clear_error();
  std::size_t count = 0;
  const int result = SSL_peek_ex(session_, &byte, 1, &count);
  const int why = SSL_get_error(session_, result);
  return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

Result<std::size_t> Stream::write(std::string_view bytes) {
  if (session_ == nullptr) {
    const auto count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EINTR) return std::size_t{0};
    return network_error("the connection broke", errno);
  }
  const std::lock_guard lock(tls_mutex_);
  ERR_clear_error();  // or SSL_get_error would judge by an older failure
  std::size_t count = 0;
  const int result = SSL_write_ex(session_, bytes.data(), bytes.size(), &count);
  if (result == 1) return count;
  const int why = SSL_get_error(session_, result);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return std::size_t{0};
  return tls_error(result, "the connection broke");
}

void Stream::shut_down() noexcept {
  shutdown(fd_, SHUT_RDWR);
}

}  // namespace holdfast::redis
