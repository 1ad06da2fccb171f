#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "rebind_all.hpp"
#include "task_access.hpp"
#include "task_output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {
namespace {

struct BindOptions {
  TaskArgument task;
  FenceOptions fence;
};

int bind(const Context& context, const BindOptions& options) {
  auto opened = open_tasks(context);
  const auto token = options.fence.any_token(opened.holdfast.locks());
  if (!token) {
    throw UsageError(
        "task bind: to which lock? Give --fence and --fence-key, or call it under `holdfast run`");
  }
  auto tasks = options.fence.tasks_meant(opened, options.task);
  print_changed(context, tasks.bind(options.task.owner.name, options.task.id, *token));
  return exit_ok;
}

struct RebindOptions {
  TaskOwner owner;
  std::optional<std::string> id;
  FenceOptions fence;
  bool none = false;
  std::optional<std::string> from;
  std::optional<std::string> to;
  bool all_owners = false;
  bool dry_run = false;
  bool yes = false;
};

/// Of a task that a lock of the lost authority guards: the same lock of the other one.
Task rebind_to_new_authority(OpenedTasks& opened, const RebindOptions& options) {
  auto task = opened.tasks.get(options.owner.name, *options.id);
  const auto to = new_authority(*options.from, options.to, opened.holdfast.locks().authority());
  if (!task.guarded_by || task.guarded_by->authority != *options.from) return task;
  const FencingToken token{
      .authority = to, .lock_key = task.guarded_by->lock_key, .fence = Fence::of(1).value_or_throw()};
  return opened.tasks.rebind_from(*options.from, options.owner.name, *options.id, token);
}

int rebind_one(const Context& context, const RebindOptions& options) {
  const bool says_what = options.none || options.fence.fence.has_value();
  if ((!says_what && !options.from) || (options.none && options.fence.fence)) {
    throw UsageError(
        "task rebind: give either --fence F with --fence-key K, or --none, or the authority that is gone "
        "(--from-authority A)");
  }
  if (options.all_owners || options.dry_run || options.yes) {
    throw UsageError("task rebind: --all-owners, --dry-run and --yes are for many tasks; leave out the ID");
  }
  if (options.to && (says_what || !options.from)) {
    throw UsageError("--to-authority: goes with --from-authority, without --fence and --none");
  }
  auto opened = open_tasks(context);
  const auto& owner = options.owner.name;
  if (!says_what) {
    print_changed(context, rebind_to_new_authority(opened, options));
    return exit_ok;
  }
  const auto token = options.fence.explicit_token(opened.holdfast.locks());
  print_changed(context, options.from ? opened.tasks.rebind_from(*options.from, owner, *options.id, token)
                                      : opened.tasks.rebind(owner, *options.id, token));
  return exit_ok;
}

int rebind(const Context& context, const RebindOptions& options) {
  if (options.id) {
    return with_task({.owner = options.owner, .id = *options.id},
                     [&] { return rebind_one(context, options); });
  }
  if (!options.from) throw UsageError("task rebind: give the ID of a task, or --from-authority A for many");
  if (options.none || options.fence.fence || options.fence.key) {
    throw UsageError("task rebind: --none and --fence are for one task; give its ID");
  }
  return rebind_all(context, {.from = *options.from,
                              .to = options.to,
                              .owner = options.all_owners ? std::nullopt : std::optional(options.owner.name),
                              .dry_run = options.dry_run,
                              .yes = options.yes});
}

}  // namespace

void add_task_bind(Command task, Context& context) {
  auto command = task.add_command("bind", "Let a lock guard a task from now on");
  auto options = std::make_shared<BindOptions>();
  options->task.add_to(command);
  options->fence.add_to(command, "Bind it with this fence (default $HOLDFAST_FENCE)");
  options->fence.add_incarnation_to(command);
  command.footer(
      "From then on the task refuses writes with a lower fence of that lock and with any of another.\n"
      "Under `holdfast run` the lock is that of the run, and its scripts' writes carry the fence without\n"
      "more ado.\n"
      "\n"
      "Exit: 0 bound, or bound to that lock before; 1 there is no such task; 79 another lock guards it, or\n"
      "the fence is an old one.\n"
      "\n"
      "Examples:\n"
      "  holdfast run nightly -- holdfast task bind \"$id\"\n"
      "  holdfast task bind \"$id\" --fence 42 --fence-key nightly");
  command.action(
      [&context, options] { return with_task(options->task, [&] { return bind(context, *options); }); });
}

void add_task_rebind(Command task, Context& context) {
  auto command = task.add_command("rebind", "For operators: change which lock guards a task, or many");
  auto options = std::make_shared<RebindOptions>();
  const auto owner = options->owner.add_to(command);
  command.add_option("ID", options->id, "The task's id; without it: every task of --from-authority")
      .not_empty();
  command.add_flag("--none", options->none, "No lock guards it any more");
  options->fence.add_to(command, "The fence that counts from now on, however low");
  command
      .add_option("--from-authority", options->from,
                  "Only what locks of this authority guard: for a store that lost its data")
      .value_name("AUTHORITY")
      .not_empty();
  command
      .add_option("--to-authority", options->to,
                  "The authority of the same locks from now on (default: that of this store's locks)")
      .value_name("AUTHORITY")
      .not_empty();
  command.add_flag("--all-owners", options->all_owners, "The tasks of all owners, and the fenced registers")
      .excludes(owner);
  auto dry_run = command.add_flag("--dry-run", options->dry_run, "Only list what would be rebound");
  command.add_flag("-y,--yes", options->yes, "Do not ask, though there is a terminal").excludes(dry_run);
  command.footer(
      "With --fence or --none: whatever guarded it before, and however high that fence was, for a lock that\n"
      "moved to another store, or lost its counter. With --fence, a write under the old lock is refused\n"
      "afterwards. With --none it is not: the next write that carries a fence is taken, even one of the old\n"
      "holder, and binds the task to its lock again. So end the old holder first.\n"
      "\n"
      "With --from-authority and neither of these: the task is guarded by the same lock as before, of the "
      "new\n"
      "authority, with the lowest fence. The next holder of that lock can write to it, holders of the lost\n"
      "authority cannot. Without an ID this is done to all tasks of the owner, or of --all-owners, that a "
      "lock\n"
      "of that authority guards. What was bound to another lock meanwhile is never changed. On a terminal "
      "it\n"
      "counts them and asks; elsewhere give --dry-run or --yes. With --json one object per line, the last "
      "one\n"
      "with the numbers; stderr tells every second how far it has come.\n"
      "\n"
      "Exit: 0 done; 1 there is no such task, or the answer was no; 70 a record cannot be read (it is "
      "named,\n"
      "and the others are rebound).\n"
      "\n"
      "Examples:\n"
      "  holdfast task rebind \"$id\" --none\n"
      "  holdfast task rebind \"$id\" --fence 42 --fence-key nightly\n"
      "  holdfast task rebind --from-authority \"$lost\" --all-owners --dry-run\n"
      "  holdfast task rebind --from-authority \"$lost\" --all-owners --yes");
  command.action([&context, options] { return rebind(context, *options); });
}

}  // namespace holdfast::cli
