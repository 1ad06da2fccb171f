#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace holdfast::cli {

/// What was typed, divided before the option parser sees it.
struct Arguments {
  /// For the parser.
  std::vector<std::string> ours;
  /// For `run` and `task run`: the command and its arguments, exactly as typed, whatever they look like.
  std::vector<std::string> command;
};

/// Finds where the command of `run` begins: after `--`, or at the first argument after KEY; that of `task
/// run` after `--`, or at the first argument that is no option. Which options take a value is read from
/// `app`'s own tables. Lock ids may begin with `-` (one in 64 does); where an id is expected they are kept
/// from being taken for options. Throws UsageError for an unknown subcommand or
/// option, and for an option whose value is missing.
[[nodiscard]] Arguments divide_arguments(CLI::App& app, const std::vector<std::string>& typed);

}  // namespace holdfast::cli
