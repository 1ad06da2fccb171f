#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/site/site.hpp"
#include "serve/transport/listener.hpp"

namespace holdfast::serve {

/// The HTTP server: one listener, one thread for all connections.
class Server {
 public:
  struct Settings {
    Site::Settings site;
    /// PEM files; both or none.
    std::string certificate_file = {};
    std::string key_file = {};
    std::vector<int> stop_signals = {};
    /// Called for a second signal: the process should exit.
    std::function<void(int signal)> on_second_signal = {};
  };

  /// Listens, and no stop signal ends the process from here on. Throws Error(InvalidArgument) if the address
  /// cannot be used, or the certificate is invalid.
  Server(Holdfast store, Settings settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens: with the port that the system chose, if 0 was asked for.
  [[nodiscard]] const ListenAddress& address() const noexcept { return listener_.address(); }
  /// Serves until a signal comes, or request_stop() is called.
  void run();
  /// Ends run(), from any thread.
  void request_stop();

 private:
  void expect_signals();
  void stop();

  Settings settings_;
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  asio::steady_timer stop_timer_{io_};
  bool stopping_ = false;
  // The site has answers that wait for it when the connections end: it ends after them.
  std::optional<Site> site_;
  Listener listener_;
};

}  // namespace holdfast::serve
