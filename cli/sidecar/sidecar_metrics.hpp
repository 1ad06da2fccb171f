#pragma once

#include <atomic>
#include <condition_variable>
#include <holdfast/metrics.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "arguments/command.hpp"
#include "metrics/metrics_file.hpp"

namespace holdfast::serve {
class MetricsServer;
}

namespace holdfast::cli {

/// The metrics of `holdfast rpc`: in a file that is replaced every 15 seconds and at the end, and over HTTP.
class SidecarMetrics {
 public:
  /// As typed.
  struct Options {
    MetricsFile::Options file;
    std::optional<std::string> listen = {};
    std::optional<std::string> token_file = {};

    void add_to(Command command);
  };

  /// Throws UsageError, or Error(InvalidArgument), if the file or the address cannot be used.
  explicit SidecarMetrics(const Options& options);
  /// Writes the file for the last time.
  ~SidecarMetrics();
  SidecarMetrics(const SidecarMetrics&) = delete;
  SidecarMetrics& operator=(const SidecarMetrics&) = delete;

  /// Null if no metrics are wanted.
  [[nodiscard]] std::shared_ptr<Observer> observer() const noexcept { return metrics_; }
  /// Begins to write the file, and reports the address. The server answers from the construction on.
  void start();
  void set_clients(std::size_t count) noexcept { clients_ = count; }

 private:
  void listen(const Options& options);
  void write_until(const std::stop_token& stop);
  void write();
  [[nodiscard]] std::string page() const;

  MetricsFile file_;
  std::shared_ptr<Metrics> metrics_;
  std::atomic<std::size_t> clients_ = 0;
  bool failed_ = false;  ///< the last attempt to write the file
  std::string about_token_;
  std::unique_ptr<serve::MetricsServer> server_;
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread writer_;
};

}  // namespace holdfast::cli
