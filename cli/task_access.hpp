#pragma once

#include <functional>
#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "command.hpp"
#include "context.hpp"

namespace holdfast::cli {

/// --owner: whose tasks. Without it $HOLDFAST_TASK_OWNER, which `task run` sets for its command, so that what
/// a script does with its own task need not repeat it; then `local`: the command line is used by people, who
/// need no name for themselves, so it is allowed here, though stores refuse it by default.
struct TaskOwner {
  static constexpr const char* nobody_in_particular = "local";
  std::string name = by_default();

  [[nodiscard]] static std::string by_default();

  Option add_to(Command command);
};

/// The task that most subcommands are about: --owner and ID.
struct TaskArgument {
  TaskOwner owner;
  std::string id;

  void add_to(Command command);
};

/// That there is none, and under which owner it was looked for: for people.
[[nodiscard]] std::string no_such_task_message(const TaskArgument& task);
/// Does what a command does with this task; if there is none, the error says under which owner it was looked
/// for.
int with_task(const TaskArgument& task, const std::function<int()>& action);

/// An opened engine and its tasks.
struct OpenedTasks {
  Holdfast holdfast;
  Tasks tasks;
};
[[nodiscard]] OpenedTasks open_tasks(const Context& context);

/// --fence and --fence-key: under which lock a command writes; and --incarnation: to which task, of those
/// that have had its id.
///
/// With --fence the writes carry that fence, and so bind a task that no lock guards yet. Without it, the
/// environment that `holdfast run` gives its command (HOLDFAST_FENCE, HOLDFAST_KEY, HOLDFAST_AUTHORITY)
/// counts for tasks that are bound to that very lock, and binds none: a script that happens to run under a
/// lock does not mean every task it touches to be guarded by it.
///
/// Without --incarnation, $HOLDFAST_TASK_INCARNATION counts for the very task that `task run` runs its
/// command as, in that store: a script that comes late must not write to a successor, which no fence guards
/// yet.
struct FenceOptions {
  std::optional<std::string> fence;
  std::optional<std::string> key;
  std::optional<std::string> incarnation;

  /// For writes. `fence_help`: for commands where it means something else.
  void add_to(Command command, const std::string& fence_help = fence_help_of_writes);
  static constexpr const char* fence_help_of_writes =
      "Write under this fence, which binds an unguarded task to its lock. Default: $HOLDFAST_FENCE for a "
      "task "
      "that is bound to $HOLDFAST_KEY";
  void add_incarnation_to(Command command);
  /// What --fence says. Throws UsageError if it is no fence, or nobody says of which lock.
  [[nodiscard]] std::optional<FencingToken> explicit_token(Locks& locks) const;
  /// The same, or else what the environment says: for what binds a task on purpose.
  [[nodiscard]] std::optional<FencingToken> any_token(Locks& locks) const;
  /// `opened` as it is for the task that is meant.
  [[nodiscard]] Tasks tasks_meant(const OpenedTasks& opened, const TaskArgument& task) const;
};

/// `tasks` as this command has to write to that task: with a fence or without. Without --fence, but under
/// `holdfast run`, it looks at the task first.
///
/// What happens between that look and the write does no harm. If the task is bound to another lock meanwhile,
/// the write is refused. If it is bound to ours meanwhile, the write goes through without a fence, as it
/// would have a moment before, and as any write without a fence may. If an operator unbinds it meanwhile, the
/// write binds it again to the lock that guarded it, whose holder we are; he sees that, and can do it again.
[[nodiscard]] Tasks tasks_for_writing(OpenedTasks& opened, const FenceOptions& fence,
                                      const TaskArgument& task);

/// The value of an argument that is to be JSON. Throws UsageError, which says how to quote what is meant to
/// be text. read_json_argument takes "-" for standard input.
[[nodiscard]] Json parse_json_argument(std::string_view name, std::string_view text);
[[nodiscard]] Json read_json_argument(std::string_view name, std::string_view text);
/// Throws UsageError that names the states there are.
[[nodiscard]] TaskStatus parse_status_argument(std::string_view text);

}  // namespace holdfast::cli
