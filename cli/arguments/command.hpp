#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace holdfast::cli {

/// One option, flag or positional of a command. A reference: cheap to copy, valid while the parser lives.
class Option {
 public:
  explicit Option(CLI::Option* option) noexcept : option_(option) {}

  Option& required();
  Option& excludes(const Option& other);
  Option& between(int lowest, int highest);
  /// An empty value is a usage error: most likely a script's variable that is not set.
  Option& not_empty();
  /// Whether it was on the command line.
  [[nodiscard]] bool given() const;

 private:
  CLI::Option* option_;
};

/// What subcommands need of the option parser, so that its large header is not compiled once per subcommand.
/// A reference, as Option is. Variables that values are stored in outlive it.
class Command {
 public:
  /// `chosen` is set by the subcommand that was typed; its result is the exit code.
  Command(CLI::App& app, std::function<int()>& chosen) noexcept : app_(&app), chosen_(&chosen) {}

  [[nodiscard]] Command add_command(const std::string& name, const std::string& description);
  /// `names`: "-w,--wait DURATION", with the value's name for the help, or "KEY" for a positional: a word,
  /// for the parser refuses `=` in it. `value` keeps its content unless the option is given.
  Option add_option(const std::string& names, std::string& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::string>& value, const std::string& help);
  Option add_option(const std::string& names, int& value, const std::string& help);
  /// For the last positional: takes all values that are left.
  Option add_option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option add_flag(const std::string& names, bool& value, const std::string& help);
  void require_subcommand();
  /// Replaces the usage line that the parser would make.
  void usage(std::string line);
  void footer(const std::string& text);
  void action(std::function<int()> run);
  [[nodiscard]] CLI::App& parser() const noexcept { return *app_; }

 private:
  CLI::App* app_;
  std::function<int()>* chosen_;
};

/// What was typed, split before the option parser sees it.
struct SplitCommandLine {
  /// For the parser.
  std::vector<std::string> ours;
  /// For `run` and `task run`: the command and its arguments, exactly as typed.
  std::vector<std::string> command;
};

/// Adds to a subcommand of the program what it consists of, unless that is done.
using FillFamily = std::function<void(CLI::App&)>;

/// Finds where the command of `run` begins: after `--`, or at the first argument after KEY; that of `task
/// run` after `--`, or at the first argument that is not an option; that of `task work` after `--`. Which
/// options take a value is read from `app`'s own tables. Lock ids may begin with `-` (one in 64 does): where
/// an id is expected, they are kept from being parsed as options. `enter` is called with the subcommand of
/// `app` that was typed, after it is filled. `help COMMAND...` becomes `COMMAND... --help`. Throws UsageError
/// for an unknown subcommand or option, and for a missing value.
[[nodiscard]] SplitCommandLine split_command_line(CLI::App& app, const std::vector<std::string>& typed,
                                                  const FillFamily& fill,
                                                  const std::function<void(CLI::App&)>& enter);

/// What the parser refused, on one line: with the subcommands if one is missing, and without a URL, which may
/// hold a password. `app` is the one that parsed.
[[nodiscard]] std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace holdfast::cli
