#pragma once

#include <functional>
#include <optional>
#include <string>

#include "arguments/command.hpp"

namespace holdfast::cli {

/// A file for the textfile collector of Prometheus' node_exporter: `--metrics-file` and `--metrics-job`.
///
/// It is replaced as a whole: readers see the old content or the new one. A symbolic link at its path is
/// replaced, and what it leads to is not touched. Mode 0644, restricted by the umask.
class MetricsFile {
 public:
  /// As typed.
  struct Options {
    std::optional<std::string> path = {};
    std::optional<std::string> job = {};

    void add_to(Command command, const std::string& what);
  };

  /// Checks that the file can be written, without changing it. Throws UsageError.
  explicit MetricsFile(const Options& options);

  /// Whether there is a file to write.
  [[nodiscard]] bool wanted() const noexcept { return !path_.empty(); }
  /// The value of the label `holdfast_job`.
  [[nodiscard]] const std::string& job() const noexcept { return job_; }

  /// Returns the content that is there, empty if there is none. Throws std::exception if it cannot be read.
  using OldContent = std::function<std::string()>;
  /// Replaces the content by what `content` returns. Processes of the same directory do this one after
  /// another. Returns why it failed, for a message; empty if it did not.
  [[nodiscard]] std::string replace(
      const std::function<std::string(const OldContent& old)>& content) const noexcept;

 private:
  std::string path_;
  std::string directory_;
  std::string name_;
  std::string job_;
};

/// The label of all series of a metrics file. Not `job`, which Prometheus uses for its own.
inline constexpr const char* job_label = "holdfast_job";

}  // namespace holdfast::cli
