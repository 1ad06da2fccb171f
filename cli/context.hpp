#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace holdfast::cli {

/// What the command line said, before and beside the subcommand's own options.
struct Context {
  std::string url;
  bool json = false;
  /// For `run`: the command and its arguments, untouched by our parser.
  std::vector<std::string> command;
  /// Set by the subcommand that was chosen; its result is the exit code.
  std::function<int()> action;

  /// $HOLDFAST_URL, then the embedded default, unless --url was given.
  [[nodiscard]] std::string url_or_default() const;
};

// Each adds one subcommand, which on parsing sets `context.action`. `context` outlives the parser.
void add_run(CLI::App& app, Context& context);
void add_lock_acquire(CLI::App& lock, Context& context);
void add_lock_release(CLI::App& lock, Context& context);
void add_lock_extend(CLI::App& lock, Context& context);
void add_lock_show(CLI::App& lock, Context& context);
void add_lock_list(CLI::App& lock, Context& context);
void add_doctor(CLI::App& app, Context& context);
void add_completion(CLI::App& app, Context& context);

}  // namespace holdfast::cli
