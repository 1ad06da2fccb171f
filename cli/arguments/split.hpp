#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace holdfast::cli {

/// What was typed, split before the option parser sees it.
struct SplitCommandLine {
  /// For the parser.
  std::vector<std::string> ours;
  /// For `run` and `task run`: the command and its arguments, exactly as typed.
  std::vector<std::string> command;
};

/// Finds where the command of `run` begins: after `--`, or at the first argument after KEY; that of `task
/// run` after `--`, or at the first argument that is not an option. Which options take a value is read from
/// `app`'s own tables. Lock ids may begin with `-` (one in 64 does): where an id is expected, they are kept
/// from being parsed as options. `enter` is called with the subcommand of `app` that was typed, and may add to
/// it what it consists of. Throws UsageError for an unknown subcommand or option, and for a missing value.
[[nodiscard]] SplitCommandLine split_command_line(CLI::App& app, const std::vector<std::string>& typed,
                                                  const std::function<void(CLI::App&)>& enter);

}  // namespace holdfast::cli
