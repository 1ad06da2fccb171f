#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace holdfast::cli {

class Command;

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
void add_run(Command app, Context& context);
void add_lock_acquire(Command lock, Context& context);
void add_lock_release(Command lock, Context& context);
void add_lock_extend(Command lock, Context& context);
void add_lock_show(Command lock, Context& context);
void add_lock_list(Command lock, Context& context);
void add_doctor(Command app, Context& context);
/// Reads the parser's own tables.
void add_completion(CLI::App& app, Context& context);

}  // namespace holdfast::cli
