#pragma once

#include <algorithm>
#include <functional>
#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "arguments/context.hpp"

namespace holdfast::cli {

/// --owner. Without it $HOLDFAST_TASK_OWNER, which `task run` sets for its command, so that a script need not
/// repeat it for its own task; then `local`, which the command line allows for people who need no owner,
/// though stores refuse it by default.
struct TaskOwner {
  static constexpr const char* anonymous = "local";
  std::string name = by_default();

  [[nodiscard]] static std::string by_default();

  Option add_to(Command command);
};

/// --owner and ID.
struct TaskArgument {
  TaskOwner owner;
  std::string id;

  void add_to(Command command);
};

/// Names the task and the owner under which it was not found.
[[nodiscard]] std::string no_such_task_message(const TaskArgument& task);
/// Runs `action`; an Error(NotFound) of it gets that message.
int with_task(const TaskArgument& task, const std::function<int()>& action);
/// The same for a task of a queue.
int with_queue_task(const std::string& queue, const std::string& id, const std::function<int()>& action);

/// An opened engine and its tasks.
struct OpenedTasks {
  Holdfast holdfast;
  Tasks tasks;
};
[[nodiscard]] OpenedTasks open_tasks(const Context& context, const OpenOptions& options = {});

/// --fence and --fence-key: the lock under which a command writes; and --incarnation: the task to which it
/// writes, of those that have had its id.
///
/// With --fence the writes carry that fence, and so bind a task that no lock guards yet. Without it, the
/// environment that `holdfast run` gives its command (HOLDFAST_FENCE, HOLDFAST_KEY, HOLDFAST_AUTHORITY)
/// applies to tasks that are bound to that very lock, and binds none: a script that happens to run under a
/// lock does not mean every task it touches to be guarded by it.
///
/// Without --incarnation, $HOLDFAST_TASK_INCARNATION applies to the very task that `task run` runs its
/// command as, in that store: a late script must not write to a successor, which no fence guards yet.
struct FenceOptions {
  std::optional<std::string> fence;
  std::optional<std::string> key;
  std::optional<std::string> incarnation;

  /// `fence_help`: for commands where --fence means something else.
  void add_to(Command command, const std::string& fence_help = fence_help_of_writes);
  static constexpr const char* fence_help_of_writes =
      "Write with this fence; this binds an unbound task to the lock. Default: $HOLDFAST_FENCE, if the\n"
      "task is bound to $HOLDFAST_KEY";
  void add_incarnation_to(Command command);
  /// The token of --fence. Throws UsageError if it is invalid, or its lock is not named.
  [[nodiscard]] std::optional<FencingToken> explicit_token(const Locks& locks) const;
  /// The same, or else that of the environment: for commands that bind a task.
  [[nodiscard]] std::optional<FencingToken> any_token(const Locks& locks) const;
  /// The store, restricted to the incarnation that is meant.
  [[nodiscard]] Tasks with_incarnation(OpenedTasks& opened, const TaskArgument& task) const;
};

/// The store as this command has to write to that task: with a fence or without. Without --fence, but under
/// `holdfast run`, it reads the task first.
///
/// A change between that read and the write does no harm. If the task is bound to another lock meanwhile, the
/// write is refused. If it is bound to our lock meanwhile, the write succeeds without a fence, as it would
/// have before, and as any write without a fence may. If an operator unbinds it meanwhile, the write binds it
/// again to the lock that guarded it, whose holder we are; the operator sees that, and can repeat it.
[[nodiscard]] Tasks tasks_for_writing(OpenedTasks& opened, const FenceOptions& fence,
                                      const TaskArgument& task);

/// --ttl, --method and --request-key of a new task. Shared by `task create` and `task run`.
struct NewTaskOptions {
  std::optional<std::string> ttl;
  std::string method;
  std::optional<std::string> request_key;

  void add_to(Command command);
  /// A view of this object. Throws UsageError.
  [[nodiscard]] NewTask request() const;
  [[nodiscard]] bool given() const { return ttl || !method.empty() || request_key; }
};

/// Calls `visit(owner)` for every owner of tasks, until it returns false, and `skip(name)` for what is stored
/// under a name that no owner has. Large pages: on Redis each costs a scan of all keys.
template <class Visit, class Skip>
void for_each_owner(Tasks& tasks, const Visit& visit, const Skip& skip) {
  std::string cursor;
  do {
    const auto page = tasks.owners({.cursor = cursor, .limit = max_record_page});
    for (const auto& owner : page.owners) {
      if (!visit(owner)) return;
    }
    for (const auto& name : page.unreadable) skip(name);
    cursor = page.cursor;
  } while (!cursor.empty());
}

/// Calls `visit(page)`, which returns how many more tasks are wanted, for the pages of an owner's list. The
/// cursor and limit of `what` are not used.
/// Returns the error of a list that cannot be read at all, for example because its Redis key holds another
/// type: the lists of other owners may be readable.
template <class Visit>
std::optional<Error> for_each_page(Tasks& tasks, const std::string& owner, ListTasks what, std::size_t wanted,
                                   const Visit& visit) {
  constexpr std::size_t page_size = 200;
  std::string cursor;
  try {
    do {
      what.cursor = cursor;
      what.limit = std::min(wanted, page_size);
      const auto page = tasks.list(owner, what);
      wanted = visit(page);
      cursor = page.cursor;
    } while (wanted > 0 && !cursor.empty());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Internal) throw;
    return error;
  }
  return std::nullopt;
}

}  // namespace holdfast::cli
