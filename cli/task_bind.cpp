#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "task_access.hpp"
#include "task_output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {
namespace {

struct BindOptions {
  TaskArgument task;
  FenceOptions fence;
  bool none = false;
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

int rebind(const Context& context, const BindOptions& options) {
  if (options.none == options.fence.fence.has_value()) {
    throw UsageError("task rebind: give either --fence F with --fence-key K, or --none");
  }
  auto opened = open_tasks(context);
  const auto token = options.fence.explicit_token(opened.holdfast.locks());
  print_changed(context, opened.tasks.rebind(options.task.owner.name, options.task.id, token));
  return exit_ok;
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
  auto command = task.add_command("rebind", "For operators: change which lock guards a task");
  auto options = std::make_shared<BindOptions>();
  options->task.add_to(command);
  command.add_flag("--none", options->none, "No lock guards it any more");
  options->fence.add_to(command, "The fence that counts from now on, however low");
  command.footer(
      "Whatever guarded it before, and however high that fence was: for a lock that moved to another store,\n"
      "or lost its counter. With --fence, whoever still writes under the old lock is refused afterwards. "
      "With\n"
      "--none nobody is: the next write that carries a fence is taken, even one of the old holder, and "
      "binds\n"
      "the task to its lock again. So end the old holder first.\n"
      "\n"
      "Exit: 0 done; 1 there is no such task.\n"
      "\n"
      "Examples:\n"
      "  holdfast task rebind \"$id\" --none\n"
      "  holdfast task rebind \"$id\" --fence 42 --fence-key nightly");
  command.action(
      [&context, options] { return with_task(options->task, [&] { return rebind(context, *options); }); });
}

}  // namespace holdfast::cli
