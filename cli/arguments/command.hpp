#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
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
  /// `names`: "-w,--wait DURATION", with the value's name for the help, or "KEY" for a positional. `value`
  /// keeps its content unless the option is given.
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

}  // namespace holdfast::cli
