#pragma once

#include <functional>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments/command.hpp"

namespace holdfast {
class Holdfast;
class Metrics;
}  // namespace holdfast

namespace holdfast::cli {

/// The limits and defaults of TaskOptions, as typed. They apply to this process: a store has none.
struct TaskLimits {
  int max_tasks = static_cast<int>(TaskOptions{}.max_tasks_per_owner);
  int max_variables = static_cast<int>(TaskOptions{}.max_variables_bytes);
  int max_string = static_cast<int>(TaskOptions{}.max_string_bytes);
  int max_depth = static_cast<int>(TaskOptions{}.max_variable_depth);
  std::optional<std::string> max_ttl;
  std::optional<std::string> default_ttl;
  std::optional<std::string> poll_interval;

  void add_to(Command command);
  /// Throws UsageError.
  [[nodiscard]] TaskOptions options(bool allow_anonymous) const;
};

/// What was typed before and beside the subcommand's own options.
struct Context {
  std::string url;
  /// --system: `system:` as the URL.
  bool system = false;
  bool json = false;
  /// --holder; empty if it is not given.
  std::string holder;
  /// For `run` and `task run`: the command and its arguments, as typed.
  std::vector<std::string> command;
  /// For `task` and its subcommands.
  TaskLimits task_limits;
  /// Set by the subcommand that was chosen; its result is the exit code.
  std::function<int()> action;

  /// --url or --system, then $HOLDFAST_URL, then the embedded default.
  [[nodiscard]] std::string url_or_default() const;
};

/// Opens the store that the command line names. Reports on stderr if this made the directory of `--system`:
/// it is outside the user's own files, and decides which users share locks. `metrics` may be null.
[[nodiscard]] Holdfast open_store(const Context& context, std::shared_ptr<Metrics> metrics = nullptr);
/// The same, for a command that waits: a server that cannot be reached is tried again for this long, because
/// a failover may be in progress.
[[nodiscard]] Holdfast open_store(const Context& context, std::chrono::milliseconds patience);

/// Overwrites passwords of Redis URLs in the program's own arguments, which every user of the machine can
/// read (ps, /proc/PID/cmdline) while the program runs. To be called first, after the arguments were copied.
/// Before that they are visible for a moment, so a password is better kept out of them.
void hide_passwords(int argc, char** argv) noexcept;

// The command families, each defined in the folder of its name (rpc: sidecar/). Each adds its options and
// commands, which set `context.action`. `context` outlives the parser.
void fill_run(Command run, Context& context);
void fill_lock(Command lock, Context& context);
void fill_task(Command task, Context& context);
void fill_top(Command command, Context& context);
void fill_rpc(Command command, Context& context);
void fill_serve(Command command, Context& context);
void fill_doctor(Command command, Context& context);
/// Its script is made from the parser's own tables: all families have to be filled.
void fill_completion(Command completion, Context& context);

}  // namespace holdfast::cli
