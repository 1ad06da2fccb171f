#include "serve/transport/server.hpp"

#include <asio/post.hpp>
#include <utility>

namespace holdfast::serve {

using namespace std::chrono_literals;

Server::Server(Holdfast store, Settings settings)
    : settings_(std::move(settings)),
      listener_(io_, {.address = settings_.site.access.hosts.listen,
                      .certificate_file = settings_.certificate_file,
                      .key_file = settings_.key_file}) {
  settings_.site.access.hosts.listen = listener_.address();
  site_.emplace(io_.get_executor(), std::move(store), settings_.site);
  expect_signals();
}

Server::~Server() = default;

void Server::run() {
  listener_.start(*site_);
  io_.run();
}

void Server::expect_signals() {
  for (const int signal : settings_.stop_signals) signals_.add(signal);
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    signals_.async_wait([this](const asio::error_code& cancelled, int signal) {
      if (!cancelled && settings_.on_second_signal) settings_.on_second_signal(signal);
    });
    stop();
  });
}

void Server::request_stop() {
  asio::post(io_, [this] { stop(); });
}

void Server::stop() {
  if (std::exchange(stopping_, true)) return;
  site_->stop();
  const bool closed = listener_.stop([this] { io_.stop(); });
  // Connections that wait for the store answer first, but not for long.
  stop_timer_.expires_after(closed ? 0s : 2s);
  stop_timer_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) io_.stop();
  });
  if (closed) io_.stop();
}

}  // namespace holdfast::serve
