#include "task/task.hpp"

namespace holdfast::cli {

void fill_task(Command task, Context& context) {
  task.require_subcommand();
  context.task_limits.add_to(task);
  task.footer(
      "A task is a record of work that somebody asked for: a status, variables, and at the end a result.\n"
      "It begins as `working`, may become `input_required` and `working` again, and ends once, as\n"
      "`completed`, `failed` or `cancelled`; then it changes no more. It is gone when its ttl is over, "
      "which\n"
      "counts from its creation (--ttl, default 1h, at most 24h), whether it has ended or not.\n"
      "\n"
      "The options here are limits of what this command writes, and may stand behind the subcommand as "
      "well:\n"
      "`holdfast task create --max-ttl 7d --ttl 3d`.\n"
      "\n"
      "Each task has an owner (--owner, default $HOLDFAST_TASK_OWNER, then local) and is not found by\n"
      "any other.\n"
      "\n"
      "A task may be bound to a lock (`task bind`, `task run`, or a write with --fence). It remembers the\n"
      "highest fence it has seen and refuses a write with a lower one: whoever lost the lock meanwhile\n"
      "cannot spoil what the next holder did. Under `holdfast run` a script need not do anything for that:\n"
      "its writes to a task that is bound to that lock carry the fence by themselves.\n"
      "\n"
      "Examples:\n"
      "  holdfast task run --method backup --ttl 8h -- ./backup.sh   a command as a task\n"
      "  id=$(holdfast task create --method report)                  or step by step\n"
      "  holdfast task set \"$id\" progress=0.5\n"
      "  holdfast task complete \"$id\" --result '{\"rows\":42}'\n"
      "  holdfast task list\n"
      "  holdfast task wait \"$id\" && holdfast task result \"$id\"\n"
      "  holdfast task cancel \"$id\"");
  add_task_run(task, context);
  add_task_create(task, context);
  add_task_get(task, context);
  add_task_list(task, context);
  add_task_update(task, context);
  add_task_set(task, context);
  add_task_complete(task, context);
  add_task_fail(task, context);
  add_task_cancel(task, context);
  add_task_wait(task, context);
  add_task_result(task, context);
  add_task_rm(task, context);
  add_task_bind(task, context);
  add_task_rebind(task, context);
  add_task_cleanup(task, context);
}

}  // namespace holdfast::cli
