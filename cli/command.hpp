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

struct Context;

/// One option, flag or positional of a command. A reference: cheap to copy, valid while the parser lives.
class Option {
 public:
  explicit Option(CLI::Option* option) noexcept : option_(option) {}

  Option& required();
  /// What the value is called in the help.
  Option& value_name(const std::string& name);
  Option& excludes(const Option& other);
  Option& between(int lowest, int highest);
  /// An empty value is a usage error: most likely a variable of a script that is not set.
  Option& not_empty();
  /// Whether it was on the command line.
  [[nodiscard]] bool given() const;

 private:
  CLI::Option* option_;
};

/// What subcommands need of the option parser, so that its large header is compiled where it is looked into
/// and not once per subcommand. A reference, as Option is. Variables that values are stored in outlive it.
class Command {
 public:
  Command(CLI::App& app, Context& context) noexcept : app_(&app), context_(&context) {}

  [[nodiscard]] Command add_command(const std::string& name, const std::string& description);
  /// `names`: "-w,--wait", or "KEY" for a positional. Left alone unless given.
  Option add_option(const std::string& names, std::string& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::string>& value, const std::string& help);
  Option add_option(const std::string& names, int& value, const std::string& help);
  /// Takes as many values as there are: for the last positional.
  Option add_option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option add_flag(const std::string& names, bool& value, const std::string& help);
  void require_subcommand();
  /// In place of the usage line that the parser would make.
  void usage(std::string line);
  void footer(const std::string& text);
  /// What to do if this command is chosen; the result is the exit code.
  void action(std::function<int()> run);

 private:
  CLI::App* app_;
  Context* context_;
};

}  // namespace holdfast::cli
