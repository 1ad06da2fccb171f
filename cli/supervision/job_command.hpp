#pragma once

#include <chrono>
#include <functional>
#include <holdfast/job.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "process/keeper_source.hpp"
#include "supervision/locked_command.hpp"
#include "supervision/supervisor.hpp"

namespace holdfast::cli {

/// Runs a command for one job: the task on its standard input, its standard output kept, its descriptor 3
/// read line by line. The command and its descendants are stopped before the lease expires, when the job is
/// stopped and when `stop` is triggered. One thread; many of these run at once.
class JobCommand {
 public:
  /// Standard output is kept up to this length; of more, the end.
  static constexpr std::size_t max_output = std::size_t{1024} * 1024;

  JobCommand(KeeperSource& source, const LeaseTimes& times) : source_(source), times_(times) {}

  struct Input {
    std::string text;                      ///< for standard input
    std::vector<std::string> environment;  ///< NAME=VALUE
    std::function<void(std::string_view)> on_line;
    /// Gets what is read of stdout (0) and stderr (1); must not block. Empty: stderr is this process's, and
    /// is not read.
    std::function<void(std::size_t, std::string_view)> on_output;
    std::stop_token stop;
  };
  /// Throws Error(Internal) if the command could not be started for reasons of this machine.
  [[nodiscard]] CommandEnd run(const Job& job, const Input& input);

  /// After run().
  [[nodiscard]] const std::string& output() const noexcept { return output_; }
  [[nodiscard]] bool output_is_cut() const noexcept { return output_is_cut_; }
  /// After run(): passes on the rest of the command's stderr; not for long, if its reader does not read.
  void forward_rest();

 private:
  struct Running;

  void read_output(Running& running, const Input& input);
  void read_errors(Running& running, const Input& input);
  void forward_some();
  void read_lines(Running& running, const Input& input);
  static std::optional<CommandEnd> follow_keeper(Running& running);
  CommandEnd stop_without_keeper(Running& running, CommandEnd::Kind kind);

  KeeperSource& source_;
  LeaseTimes times_;
  std::string output_;
  bool output_is_cut_ = false;
  std::string errors_;  ///< of stderr: read, and not passed on yet
};

}  // namespace holdfast::cli
