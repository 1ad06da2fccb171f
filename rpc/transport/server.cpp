#include "rpc/transport/server.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>

#include "rpc/methods/methods.hpp"
#include "rpc/session/limits.hpp"

namespace holdfast::rpc {
namespace {

using posix::Descriptor;

Descriptor duplicate(int fd) noexcept {
  return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

/// Sends the reason before the connection is closed.
void turn_away(const Descriptor& client, const std::string& why) noexcept {
  const auto line =
      answer("null", failure_of(std::make_exception_ptr(Error(ErrorCode::RateLimited, why)))) + "\n";
  (void)send(client.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// The label of a client's process, for LockOptions::holder. Empty if the sidecar was given a label, which
/// then stands for its clients too; and if the process is not known, or is the first of its machine or
/// container, which only started the sidecar.
std::string label_of_client(const Locks& locks, pid_t pid, uid_t user) {
  const auto own = locks.holder();
  if (pid <= 1 || !own || *own != *LockHolder::of_this_process()) return {};
  return LockHolder::of_process(pid, user)->str();
}

std::string label_of_peer(const Locks& locks, const Descriptor& client) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return label_of_client(locks, peer.pid, peer.uid);
}

}  // namespace

Server::Server(Holdfast holdfast, Settings settings)
    : io_(1),  // one thread runs it
      settings_(std::move(settings)),
      service_(io_.get_executor(), std::move(holdfast), settings_.queues, methods()),
      acceptable_(io_),
      signals_(io_),
      stop_timer_(io_) {}

void Server::connect_stdio() {
  auto in = duplicate(STDIN_FILENO);
  auto out = duplicate(STDOUT_FILENO);
  if (!in || !out) posix::throw_system_error("rpc: stdin and stdout must be open, or use --listen");
  // The client is the process that started this one.
  stdio_ =
      std::make_shared<LineConnection>(service_, Channel(service_.executor(), std::move(in), std::move(out)),
                                       label_of_client(service_.locks().blocking(), getppid(), geteuid()));
  expect_signals();
  begin(stdio_);
}

void Server::listen(std::unique_ptr<UnixSocket> socket) {
  socket_ = std::move(socket);
  auto watched = duplicate(socket_->descriptor());
  if (!watched) posix::throw_system_error("rpc: cannot open another file");
  acceptable_.assign(watched.release());
  expect_signals();
  asio::co_spawn(io_, accept_all(), rethrow);
}

std::string Server::run() {
  io_.run();
  return stdio_ ? stdio_->write_error() : std::string();
}

void Server::expect_signals() {
  for (const int signal : settings_.stop_signals) signals_.add(signal);
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    signals_.async_wait([this](const asio::error_code& cancelled, int signal) {
      if (!cancelled) settings_.on_second_signal(signal);
    });
    stop();  // which cancels that wait if no session is left
  });
}

void Server::stop() {
  asio::error_code ignored;
  (void)acceptable_.close(ignored);
  socket_.reset();
  stop_timer_.expires_after(stop_timeout);
  stop_timer_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) settings_.on_stop_timeout();
  });
  for (const auto& connection : connections_) connection->stop();
  end_if_idle();
}

void Server::end_if_idle() {
  if (socket_ || !connections_.empty()) return;
  signals_.cancel();
  stop_timer_.cancel();
}

void Server::report_client_count() const {
  if (settings_.on_client_count) settings_.on_client_count(connections_.size());
}

void Server::begin(const std::shared_ptr<LineConnection>& connection) {
  connections_.insert(connection);
  report_client_count();
  asio::co_spawn(io_, connection->run(), [this, connection](const std::exception_ptr& exception) {
    rethrow(exception);
    connections_.erase(connection);
    report_client_count();
    end_if_idle();
  });
}

void Server::admit(Descriptor client) {
  if (connections_.size() >= max_clients) {
    turn_away(client, "this sidecar has " + std::to_string(max_clients) +
                          " clients, the maximum; close a connection, or start another sidecar");
    return;
  }
  auto out = duplicate(client.get());
  if (!out) return turn_away(client, "this sidecar has too many open files");
  auto holder = label_of_peer(service_.locks().blocking(), client);
  begin(std::make_shared<LineConnection>(
      service_, Channel(service_.executor(), std::move(client), std::move(out)), std::move(holder)));
}

asio::awaitable<void> Server::accept_all() {
  while (socket_) {
    asio::error_code error;
    co_await acceptable_.async_wait(asio::posix::descriptor_base::wait_read,
                                    asio::redirect_error(asio::use_awaitable, error));
    if (error || !socket_) co_return;
    while (auto client = socket_->accept()) admit(std::move(client));
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) continue;
    // Out of files or memory. The client stays in the queue until the next attempt.
    asio::steady_timer pause(io_, std::chrono::milliseconds(100));
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace holdfast::rpc
