#pragma once

#include <asio/io_context.hpp>
#include <string>
#include <thread>

#include "serve/site/metrics_site.hpp"
#include "serve/transport/listener.hpp"

namespace holdfast::serve {

/// Serves the metrics of a process beside its work: on a thread of its own, from construction to destruction.
class MetricsServer {
 public:
  struct Settings {
    MetricsSite::Settings site;
    /// The option that chose the address, for messages.
    std::string option = "--metrics-listen";
  };

  /// Throws Error(InvalidArgument) if the address cannot be used.
  explicit MetricsServer(Settings settings);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  [[nodiscard]] const ListenAddress& address() const noexcept { return listener_.address(); }

 private:
  asio::io_context io_{1};
  Listener listener_;
  MetricsSite site_;
  std::jthread thread_;
};

}  // namespace holdfast::serve
