#pragma once

#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "command.hpp"
#include "context.hpp"

namespace holdfast::cli {

/// --owner: whose tasks. The command line is used by people, who need no name for themselves: `local` is
/// allowed here, though stores refuse it by default.
struct TaskOwner {
  std::string name = "local";

  void add_to(Command command);
};

/// The task that most subcommands are about: --owner and ID.
struct TaskArgument {
  TaskOwner owner;
  std::string id;

  void add_to(Command command);
};

/// An opened engine and its tasks.
struct OpenedTasks {
  Holdfast holdfast;
  Tasks tasks;
};
[[nodiscard]] OpenedTasks open_tasks(const Context& context);

/// --fence and --fence-key: under which lock a command writes.
///
/// With --fence the writes carry that fence, and so bind a task that no lock guards yet. Without it, the
/// environment that `holdfast run` gives its command (HOLDFAST_FENCE, HOLDFAST_KEY, HOLDFAST_AUTHORITY)
/// counts for tasks that are bound to that very lock, and binds none: a script that happens to run under a
/// lock does not mean every task it touches to be guarded by it.
struct FenceOptions {
  std::optional<std::string> fence;
  std::optional<std::string> key;

  void add_to(Command command);
  /// What --fence says. Throws UsageError if it is no fence, or nobody says of which lock.
  [[nodiscard]] std::optional<FencingToken> explicit_token(Locks& locks) const;
  /// The same, or else what the environment says: for what binds a task on purpose.
  [[nodiscard]] std::optional<FencingToken> any_token(Locks& locks) const;
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
