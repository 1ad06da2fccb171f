#pragma once

#include <functional>
#include <string>
#include <vector>

#include "task_limits.hpp"

namespace CLI {
class App;
}

namespace holdfast::cli {

class Command;

/// What the command line said, before and beside the subcommand's own options.
struct Context {
  std::string url;
  /// --system: `system:` as the URL.
  bool system = false;
  bool json = false;
  /// For `run` and `task run`: the command and its arguments, untouched by our parser.
  std::vector<std::string> command;
  /// For `task` and its subcommands.
  TaskLimits task_limits;
  /// Set by the subcommand that was chosen; its result is the exit code.
  std::function<int()> action;

  /// $HOLDFAST_URL, then the embedded default, unless --url or --system was given.
  [[nodiscard]] std::string url_or_default() const;
};

// Each adds one subcommand, which on parsing sets `context.action`. `context` outlives the parser.
void add_run(Command app, Context& context);
void add_lock_acquire(Command lock, Context& context);
void add_lock_release(Command lock, Context& context);
void add_lock_extend(Command lock, Context& context);
void add_lock_show(Command lock, Context& context);
void add_lock_owns(Command lock, Context& context);
void add_lock_list(Command lock, Context& context);
void add_lock_break(Command lock, Context& context);
/// `task` and all its subcommands.
void add_task(Command app, Context& context);
void add_task_create(Command task, Context& context);
void add_task_get(Command task, Context& context);
void add_task_result(Command task, Context& context);
void add_task_list(Command task, Context& context);
void add_task_update(Command task, Context& context);
void add_task_set(Command task, Context& context);
void add_task_complete(Command task, Context& context);
void add_task_fail(Command task, Context& context);
void add_task_cancel(Command task, Context& context);
void add_task_rm(Command task, Context& context);
void add_task_cleanup(Command task, Context& context);
void add_task_bind(Command task, Context& context);
void add_task_rebind(Command task, Context& context);
void add_task_wait(Command task, Context& context);
void add_task_run(Command task, Context& context);
void add_doctor(Command app, Context& context);
void add_rpc(Command app, Context& context);
/// Reads the parser's own tables.
void add_completion(CLI::App& app, Context& context);

}  // namespace holdfast::cli
