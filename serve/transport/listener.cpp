#include "serve/transport/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/address.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <holdfast/printable.hpp>
#include <utility>

#include "serve/http/limits.hpp"

namespace holdfast::serve {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void refuse_setting(const std::string& what, const asio::error_code& error) {
  throw Error(ErrorCode::InvalidArgument, what, error.message());
}

std::string name_of(const asio::ip::tcp::endpoint& peer) {
  const auto address = peer.address().to_string();
  return (peer.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(peer.port());
}

/// The process at the other end of a Unix socket.
std::string name_of_process(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "unix";
  return "unix uid " + std::to_string(peer.uid) + " pid " + std::to_string(peer.pid);
}

}  // namespace

Listener::Listener(asio::io_context& io, Settings settings)
    : io_(io), settings_(std::move(settings)), address_(settings_.address) {
  if (!settings_.certificate_file.empty()) load_certificate();
  listen();
}

Listener::~Listener() = default;

void Listener::load_certificate() {
  tls_.emplace(asio::ssl::context::tls_server);
  asio::error_code error;
  using options = asio::ssl::context;
  (void)tls_->set_options(
      options::default_workarounds | options::no_tlsv1 | options::no_tlsv1_1 | options::no_compression,
      error);
  (void)tls_->use_certificate_chain_file(settings_.certificate_file, error);
  if (error)
    refuse_setting("--tls-cert \"" + printable(settings_.certificate_file) + "\": cannot be used", error);
  (void)tls_->use_private_key_file(settings_.key_file, asio::ssl::context::pem, error);
  if (error) {
    refuse_setting(
        "--tls-key \"" + printable(settings_.key_file) + "\": cannot be used with this certificate", error);
  }
}

void Listener::listen() {
  if (address_.is_unix()) {
    try {
      unix_socket_ = std::make_unique<rpc::UnixSocket>(address_.path);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::InvalidArgument) throw;
      throw Error(error.code(),
                  settings_.option + " \"" + printable(address_.text()) + "\": " + error.message(),
                  error.cause());
    }
    acceptable_.assign(posix::checked(fcntl(unix_socket_->descriptor(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
                                      "serve: cannot open another file"));
    return;
  }
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address_.host), address_.port);
  asio::error_code error;
  (void)acceptor_.open(endpoint.protocol(), error);
  if (!error) (void)acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) (void)acceptor_.bind(endpoint, error);
  if (!error) (void)acceptor_.listen(128, error);
  if (!error) (void)acceptor_.non_blocking(true, error);
  if (error) refuse_setting(settings_.option + " " + address_.text() + ": cannot listen there", error);
  address_.port = acceptor_.local_endpoint().port();
}

void Listener::start(RequestHandler& handler) {
  handler_ = &handler;
  asio::co_spawn(io_, unix_socket_ ? accept_unix() : accept_tcp(), asio::detached);
}

bool Listener::stop(std::function<void()> on_closed) {
  stopping_ = true;
  on_closed_ = std::move(on_closed);
  asio::error_code ignored;
  (void)acceptor_.close(ignored);
  (void)acceptable_.close(ignored);
  unix_socket_.reset();
  for (const auto& connection : connections_) connection->close();
  return connections_.empty();
}

bool Listener::make_room() {
  if (connections_.size() < max_connections) return true;
  const auto longest = std::ranges::min_element(
      connections_, {}, [](const std::shared_ptr<Connection>& one) { return one->waiting_since(); });
  if ((*longest)->waiting_since() == std::chrono::steady_clock::time_point::max()) return false;
  (*longest)->close();  // it leaves when its coroutine notices
  return connections_.size() < max_connections + max_connections / 8;
}

void Listener::admit(ClientStream::Socket socket, std::string peer) {
  if (!make_room()) return;
  auto connection =
      std::make_shared<Connection>(*handler_, std::move(socket), tls_ ? &*tls_ : nullptr, std::move(peer));
  connections_.insert(connection);
  handler_->set_connection_count(connections_.size());
  asio::co_spawn(io_, connection->run(), [this, connection](const std::exception_ptr&) {
    connection->close();
    connections_.erase(connection);
    handler_->set_connection_count(connections_.size());
    if (stopping_ && connections_.empty() && on_closed_) on_closed_();
  });
}

asio::awaitable<void> Listener::accept_tcp() {
  while (!stopping_) {
    asio::error_code error;
    asio::ip::tcp::endpoint peer;
    auto socket = co_await acceptor_.async_accept(peer, asio::redirect_error(asio::use_awaitable, error));
    if (stopping_) co_return;
    if (!error) {
      asio::error_code ignored;
      (void)socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      admit(ClientStream::Socket(std::move(socket)), name_of(peer));
      continue;
    }
    if (error == asio::error::connection_aborted) continue;
    // Out of files or memory. The client stays in the queue until the next attempt.
    asio::steady_timer pause(io_, 100ms);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

asio::awaitable<void> Listener::accept_unix() {
  while (unix_socket_) {
    asio::error_code error;
    co_await acceptable_.async_wait(asio::posix::descriptor_base::wait_read,
                                    asio::redirect_error(asio::use_awaitable, error));
    if (error || !unix_socket_) co_return;
    while (auto client = unix_socket_->accept()) {
      auto peer = name_of_process(client.get());
      ClientStream::Socket socket(io_);
      socket.assign(asio::local::stream_protocol(), client.release());
      admit(std::move(socket), std::move(peer));
    }
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) continue;
    asio::steady_timer pause(io_, 100ms);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace holdfast::serve
