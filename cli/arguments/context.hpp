#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/queue_types.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments/command.hpp"
#include "terminal/log_activities.hpp"

namespace holdfast {
class Holdfast;
class Observer;
enum class LogLevel : std::uint8_t;
}  // namespace holdfast

namespace holdfast::cli {

/// The limits and defaults of TaskOptions, as typed; those that were not typed are the store's.
struct TaskLimits {
  int max_tasks = not_given;
  int max_variables = not_given;
  int max_string = not_given;
  int max_depth = not_given;
  std::optional<std::string> max_ttl;
  std::optional<std::string> default_ttl;
  std::optional<std::string> poll_interval;

  void add_to(Command command);
  /// Throws UsageError for what is wrong whatever the store's limits are.
  void check() const;
  /// `store`: Holdfast::task_options(). Throws UsageError.
  [[nodiscard]] TaskOptions options(const TaskOptions& store, bool allow_anonymous) const;

  static constexpr int not_given = -1;
};

/// The same for a queue.
struct QueueLimits {
  int max_tasks = TaskLimits::not_given;

  void add_to(Command command);
  /// `store`: Holdfast::queue_options().
  [[nodiscard]] QueueOptions options(const QueueOptions& store, const TaskOptions& tasks) const;
};

/// What was typed before and beside the subcommand's own options.
struct Context {
  std::string url;
  /// --system: `system:` as the URL.
  bool system = false;
  bool json = false;
  /// --holder; empty if it is not given.
  std::string holder;
  /// --log-format, --log-level and --log-keys, as typed; empty if not given.
  std::string log_format;
  std::string log_level;
  bool log_keys = false;
  /// For `run`, `task run` and `task work`: the command and its arguments, as typed.
  std::vector<std::string> command;
  /// For `task` and its subcommands.
  TaskLimits task_limits;
  /// Set by the subcommand that was chosen; its result is the exit code.
  std::function<int()> action;

  /// --url or --system, then $HOLDFAST_URL, then the embedded default.
  [[nodiscard]] std::string url_or_default() const;
};

struct OpenOptions {
  /// For a command that waits: a server that cannot be reached is tried again for this long, because a
  /// failover may be in progress.
  std::chrono::milliseconds retry_for{};
  /// May be null.
  std::shared_ptr<Observer> observer = {};
  LoggedActivities logged = LoggedActivities::none;
  /// Receives the log messages of the library. Empty: they go to the log of this program.
  std::function<void(LogLevel, std::string_view)> log_sink = {};
};

/// Opens the store that the command line names. Reports on stderr if this made the directory of `--system`:
/// it is outside the user's own files, and decides which users share locks.
[[nodiscard]] Holdfast open_store(const Context& context, const OpenOptions& options = {});

/// Overwrites passwords of Redis URLs in the program's own arguments, which every user of the machine can
/// read (ps, /proc/PID/cmdline) while the program runs. To be called first, after the arguments were copied.
/// Before that they are visible for a moment, so a password is better kept out of them.
void hide_passwords(int argc, char** argv) noexcept;

// The command families, each defined in the folder of its name (rpc: sidecar/). Each adds its options and
// commands, which set `context.action`. `context` outlives the parser.
void fill_run(Command run, Context& context);
void fill_lock(Command lock, Context& context);
void fill_task(Command task, Context& context);
void fill_queue(Command queue, Context& context);
void fill_top(Command command, Context& context);
void fill_rpc(Command command, Context& context);
void fill_serve(Command command, Context& context);
void fill_doctor(Command command, Context& context);
void fill_bench(Command command, Context& context);
// Their texts are made from the parser's own tables: all families have to be filled.
void fill_completion(Command completion, Context& context);
void fill_manual(Command manual, Context& context);

}  // namespace holdfast::cli
