#include <holdfast/memory.hpp>
#include <nlohmann/json.hpp>

#include "arguments/values.hpp"
#include "task/access.hpp"
#include "task/task.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

struct ChangeOptions {
  TaskArgument task;
  FenceOptions fence;
  std::optional<std::string> message;
  std::string status;
  std::optional<std::string> result;
  std::vector<std::string> variables;

  void add_message_to(Command command) {
    command.add_option("--message TEXT", message, "Status message for people");
  }
  void add_fence_to(Command command) {
    fence.add_to(command);
    fence.add_incarnation_to(command);
  }
};

struct CreateOptions {
  TaskOwner owner;
  NewTaskOptions task;
  std::vector<std::string> variables;
  FenceOptions fence;
};

constexpr const char* exit_codes_of_changes =
    "Exit: 0 done; 1 no such task, or owned by another owner; 65 the task has ended, or the change is not\n"
    "allowed; 79 the write carried a stale fence, or the fence of another lock.\n"
    "\n";

/// Writes under the right fence. Arguments are checked before, so that a usage error opens no store.
template <class Change>
int apply(const Context& context, const ChangeOptions& options, const Change& change) {
  return with_task(options.task, [&] {
    auto opened = open_tasks(context);
    auto tasks = tasks_for_writing(opened, options.fence, options.task);
    print_changed(context, change(tasks, options.task.owner.name, options.task.id));
    return exit_ok;
  });
}

int update(const Context& context, const ChangeOptions& options) {
  const auto status = parse_status_argument(options.status);
  return apply(context, options, [&](Tasks& tasks, const std::string& owner, const std::string& id) {
    return tasks.update_status(owner, id, status, options.message);
  });
}

int set(const Context& context, const ChangeOptions& options) {
  const auto changes = parse_assignments(options.variables);
  return apply(context, options, [&](Tasks& tasks, const std::string& owner, const std::string& id) {
    return tasks.set_variables(owner, id, changes);
  });
}

int complete(const Context& context, const ChangeOptions& options) {
  const auto result =
      options.result ? std::optional(read_json_argument("--result", *options.result)) : std::optional<Json>();
  return apply(context, options, [&](Tasks& tasks, const std::string& owner, const std::string& id) {
    // Without --result, one that was set before stays.
    if (!result) return tasks.update_status(owner, id, TaskStatus::completed, options.message);
    return tasks.complete_with_result(owner, id, *result, options.message);
  });
}

int fail(const Context& context, const ChangeOptions& options) {
  return apply(context, options, [&](Tasks& tasks, const std::string& owner, const std::string& id) {
    return tasks.fail(owner, id, options.message);
  });
}

/// The owner may cancel a task that another process works on: no fence, not even from the environment. The
/// incarnation counts all the same: a late script of a removed task must not cancel its successor.
int cancel(const Context& context, const ChangeOptions& options) {
  return with_task(options.task, [&] {
    auto opened = open_tasks(context);
    auto tasks = options.fence.with_incarnation(opened, options.task);
    print_changed(context, tasks.cancel(options.task.owner.name, options.task.id, options.message));
    return exit_ok;
  });
}

int create(const Context& context, const CreateOptions& options) {
  auto request = options.task.request();
  const auto variables = options.variables.empty() ? Json() : parse_assignments(options.variables);
  request.variables = variables;
  auto opened = open_tasks(context);
  if (opened.holdfast.locks().capabilities().backend == memory_capabilities.backend) {
    complain(
        "warning: memory: is private to this process, so the task is gone when this command exits; use "
        "sqlite:PATH");
  }
  // There is no task yet that could be bound to the lock of the environment.
  const auto token = options.fence.explicit_token(opened.holdfast.locks());
  auto tasks = token ? opened.tasks.with_fence(*token) : opened.tasks;
  const auto task = tasks.create(options.owner.name, request);
  if (context.json) {
    print_task(context, task);
  } else {
    print_text(task.id);
  }
  return exit_ok;
}

int remove(const Context& context, const ChangeOptions& options) {
  auto opened = open_tasks(context);
  bool removed = false;
  try {
    removed = tasks_for_writing(opened, options.fence, options.task)
                  .remove(options.task.owner.name, options.task.id);
  } catch (const Error& error) {  // reading the task for its fence found none
    if (error.code() != ErrorCode::NotFound) throw;
  }
  if (!removed) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "not-found"}},
                           no_such_task_message(options.task));
    return exit_no_task;
  }
  if (context.json) print_json({{"ok", true}});
  return exit_ok;
}

int cleanup(const Context& context) {
  const auto removed = open_tasks(context).tasks.cleanup_expired();
  if (context.json) {
    print_json({{"removed", removed}});
  } else {
    print_text(std::to_string(removed) + " expired tasks removed");
  }
  return exit_ok;
}

}  // namespace

void add_task_update(Command task, Context& context) {
  auto command = task.add_command("update", "Change a task's status");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  command.add_option("STATUS", options->status, "working, input_required, completed, failed or cancelled")
      .required();
  options->add_message_to(command);
  options->add_fence_to(command);
  command.footer(std::string("Without --message the old message is removed.\n\n") + exit_codes_of_changes +
                 "Examples:\n"
                 "  holdfast task update \"$id\" input_required --message 'Which region?'\n"
                 "  holdfast task update \"$id\" working");
  command.action([&context, options] { return update(context, *options); });
}

void add_task_set(Command task, Context& context) {
  auto command = task.add_command("set", "Set variables of a task");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  command.add_option("VARIABLE", options->variables, "NAME=JSON sets a variable, NAME=null deletes it")
      .required();
  options->add_fence_to(command);
  command.footer(
      std::string("Sets all of them in one write and keeps other variables. Values are JSON, so strings\n"
                  "need double quotes: 'name=\"text\"'.\n\n") +
      exit_codes_of_changes +
      "Examples:\n"
      "  holdfast task set \"$id\" progress=0.5 'phase=\"upload\"'\n"
      "  holdfast task set \"$id\" 'files=[\"a\",\"b\"]' phase=null");
  command.action([&context, options] { return set(context, *options); });
}

void add_task_complete(Command task, Context& context) {
  auto command = task.add_command("complete", "Mark a task completed");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  command.add_option("--result JSON", options->result, "Result of the task; - reads it from standard input");
  options->add_message_to(command);
  options->add_fence_to(command);
  command.footer(std::string("Writes result and status together.\n\n") + exit_codes_of_changes +
                 "Examples:\n"
                 "  holdfast task complete \"$id\"\n"
                 "  holdfast task complete \"$id\" --result '{\"rows\":42}'\n"
                 "  ./report --json | holdfast task complete \"$id\" --result -");
  command.action([&context, options] { return complete(context, *options); });
}

void add_task_fail(Command task, Context& context) {
  auto command = task.add_command("fail", "Mark a task failed");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  options->add_message_to(command);
  options->add_fence_to(command);
  command.footer(std::string(exit_codes_of_changes) +
                 "Examples:\n"
                 "  holdfast task fail \"$id\" --message 'the disk is full'");
  command.action([&context, options] { return fail(context, *options); });
}

void add_task_cancel(Command task, Context& context) {
  auto command = task.add_command("cancel", "Cancel a task, whether or not it is claimed");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  options->add_message_to(command);
  options->fence.add_incarnation_to(command);
  command.footer(
      "Cancels without a fence, even under `holdfast run`. A `task run` of this task stops its command.\n"
      "\n"
      "Exit: 0 cancelled; 1 no such task, or owned by another owner; 65 the task has already ended.\n"
      "\n"
      "Examples:\n"
      "  holdfast task cancel \"$id\"\n"
      "  holdfast task cancel \"$id\" --message 'no longer needed'");
  command.action([&context, options] { return cancel(context, *options); });
}

void add_task_create(Command task, Context& context) {
  auto command = task.add_command("create", "Create a task and print its id");
  auto options = std::make_shared<CreateOptions>();
  options->owner.add_to(command);
  options->task.add_to(command);
  options->fence.add_to(command, "Bind the task to the lock that granted this fence");
  command.add_option("VARIABLE", options->variables, "NAME=JSON: an initial variable");
  command.footer(
      "A new task has the status `working`. With --request-key a repeated create returns the same task.\n"
      "\n"
      "Exit: 0 created (or already created under the request key); 65 ttl over 24 h, variables too large, "
      "or\n"
      "the request key belongs to another request; 75 the owner already has 100 tasks.\n"
      "\n"
      "Examples:\n"
      "  id=$(holdfast task create --method report --ttl 2h)\n"
      "  holdfast task create --request-key \"order-42\" --method ship\n"
      "  holdfast task create progress=0 'input=\"orders.csv\"'");
  command.action([&context, options] { return create(context, *options); });
}

void add_task_rm(Command task, Context& context) {
  auto command = task.add_command("rm", "Remove a task, whatever its status");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  options->add_fence_to(command);
  command.footer(
      "Exit: 0 removed; 1 no such task, or owned by another owner; 79 the removal carried a stale fence, or\n"
      "the fence of another lock.\n"
      "\n"
      "Examples:\n"
      "  holdfast task rm \"$id\"");
  command.action([&context, options] { return remove(context, *options); });
}

void add_task_cleanup(Command task, Context& context) {
  auto command = task.add_command("cleanup", "Delete expired tasks of all owners");
  command.footer(
      "Expired tasks are never returned; this only frees their space. Redis frees it automatically.\n"
      "\n"
      "Examples:\n"
      "  holdfast task cleanup");
  command.action([&context] { return cleanup(context); });
}

}  // namespace holdfast::cli
