#include "rpc/server.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>

#include "exit_codes.hpp"
#include "output.hpp"
#include "rpc/failure.hpp"
#include "rpc/limits.hpp"
#include "rpc/message.hpp"
#include "signals.hpp"
#include "system_error.hpp"

namespace holdfast::cli::rpc {
namespace {

Descriptor duplicate(int fd) noexcept {
  return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

/// For one client too many: it learns why before the end.
void turn_away(const Descriptor& client, const std::string& why) noexcept {
  const auto line =
      answer("null", failure_of(std::make_exception_ptr(Error(ErrorCode::RateLimited, why)))) + "\n";
  (void)send(client.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Server::Server(Holdfast holdfast, const TaskOptions& task_options)
    : io_(1),  // one thread runs it
      service_(io_.get_executor(), std::move(holdfast), task_options),
      clients_to_come_(io_),
      signals_(io_),
      time_is_up_(io_) {}

int Server::serve_stdio() {
  auto in = duplicate(STDIN_FILENO);
  auto out = duplicate(STDOUT_FILENO);
  if (!in || !out) throw_system_error("rpc: stdin and stdout must be open, or use --listen");
  const auto session =
      std::make_shared<Session>(service_, Channel(service_.executor(), std::move(in), std::move(out)));
  expect_signals();
  begin(session);
  run();
  if (session->why_broken().empty()) return exit_ok;
  complain("rpc: the answers cannot be written (" + session->why_broken() + ")");
  return exit_internal;
}

int Server::serve(std::unique_ptr<ListeningSocket> socket) {
  socket_ = std::move(socket);
  auto watched = duplicate(socket_->descriptor());
  if (!watched) throw_system_error("rpc: no more files can be opened");
  clients_to_come_.assign(watched.release());
  expect_signals();
  asio::co_spawn(io_, accept_all(), rethrow);
  complain("rpc: listening on " + quote(socket_->path()));
  run();
  return exit_ok;
}

void Server::run() {
  io_.run();
}

void Server::expect_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  const InheritedSignals inherited;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (!inherited.ignores(signal)) signals_.add(signal);
  }
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    signals_.async_wait([](const asio::error_code& cancelled, int signal) {
      if (!cancelled) _exit(exit_signal_base + signal);
    });
    stop();  // which may be the end, and then calls that off
  });
}

void Server::stop() {
  asio::error_code ignored;
  (void)clients_to_come_.close(ignored);
  socket_.reset();
  time_is_up_.expires_after(time_to_end);
  time_is_up_.async_wait([](const asio::error_code& cancelled) {
    if (cancelled) return;
    complain("rpc: gave up waiting for the backend; a lock that is still held ends with its lease");
    _exit(exit_unavailable);
  });
  for (const auto& session : sessions_) session->stop();
  end_if_over();
}

void Server::end_if_over() {
  if (socket_ || !sessions_.empty()) return;
  signals_.cancel();
  time_is_up_.cancel();
}

void Server::begin(const std::shared_ptr<Session>& session) {
  sessions_.insert(session);
  asio::co_spawn(io_, session->run(), [this, session](const std::exception_ptr& exception) {
    rethrow(exception);
    sessions_.erase(session);
    end_if_over();
  });
}

void Server::admit(Descriptor client) {
  if (sessions_.size() >= max_clients) {
    turn_away(client, "this sidecar has " + std::to_string(max_clients) +
                          " clients, as many as it may; close a connection, or start another sidecar");
    return;
  }
  auto out = duplicate(client.get());
  if (!out) return turn_away(client, "this sidecar can open no more files");
  begin(std::make_shared<Session>(service_, Channel(service_.executor(), std::move(client), std::move(out))));
}

asio::awaitable<void> Server::accept_all() {
  while (socket_) {
    asio::error_code error;
    co_await clients_to_come_.async_wait(asio::posix::descriptor_base::wait_read,
                                         asio::redirect_error(asio::use_awaitable, error));
    if (error || !socket_) co_return;
    while (auto client = socket_->accept()) admit(std::move(client));
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) continue;
    // Out of files or memory. The client stays in the queue: look again when there may be some.
    asio::steady_timer pause(io_, std::chrono::milliseconds(100));
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace holdfast::cli::rpc
