#include "serve/transport/metrics_server.hpp"

#include <asio/post.hpp>
#include <csignal>
#include <utility>

namespace holdfast::serve {
namespace {

MetricsSite::Settings with_address(MetricsSite::Settings settings, const ListenAddress& address) {
  settings.access.hosts.listen = address;
  settings.access.served = metrics_routes();
  return settings;
}

}  // namespace

MetricsServer::MetricsServer(Settings settings)
    : listener_(io_, {.address = settings.site.access.hosts.listen, .option = std::move(settings.option)}),
      site_(with_address(std::move(settings.site), listener_.address())) {
  listener_.start(site_);
  // Signals are for the thread that does the work of the process.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this] { io_.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MetricsServer::~MetricsServer() {
  asio::post(io_, [this] {
    listener_.stop();
    io_.stop();
  });
}

}  // namespace holdfast::serve
