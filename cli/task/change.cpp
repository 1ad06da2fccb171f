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
    command.add_option("--message TEXT", message, "What people should know about it");
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
    "Exit: 0 done; 1 there is no such task, or it is another owner's; 65 the task has ended or the rules\n"
    "forbid it; 79 the write came with an old fence, or with another lock's.\n"
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
    complain("warning: memory: is private to this process, so the task is gone at once; use sqlite:PATH");
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
  command.footer(std::string("Without --message the old one goes.\n\n") + exit_codes_of_changes +
                 "Examples:\n"
                 "  holdfast task update \"$id\" input_required --message 'Which region?'\n"
                 "  holdfast task update \"$id\" working");
  command.action([&context, options] { return update(context, *options); });
}

void add_task_set(Command task, Context& context) {
  auto command = task.add_command("set", "Set variables of a task");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  command.add_option("NAME=JSON", options->variables, "Variables; NAME=null deletes one").required();
  options->add_fence_to(command);
  command.footer(
      std::string("All of them are set in one step; other variables stay. The values are JSON, so text\n"
                  "needs its double quotes: 'name=\"text\"'.\n\n") +
      exit_codes_of_changes +
      "Examples:\n"
      "  holdfast task set \"$id\" progress=0.5 'phase=\"upload\"'\n"
      "  holdfast task set \"$id\" 'files=[\"a\",\"b\"]' phase=null");
  command.action([&context, options] { return set(context, *options); });
}

void add_task_complete(Command task, Context& context) {
  auto command = task.add_command("complete", "End a task well");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  command.add_option("--result JSON", options->result, "What came of it; - reads it from standard input");
  options->add_message_to(command);
  options->add_fence_to(command);
  command.footer(std::string("Result and state are one write.\n\n") + exit_codes_of_changes +
                 "Examples:\n"
                 "  holdfast task complete \"$id\"\n"
                 "  holdfast task complete \"$id\" --result '{\"rows\":42}'\n"
                 "  ./report --json | holdfast task complete \"$id\" --result -");
  command.action([&context, options] { return complete(context, *options); });
}

void add_task_fail(Command task, Context& context) {
  auto command = task.add_command("fail", "End a task that went wrong");
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
  auto command = task.add_command("cancel", "Call a task off, whoever works on it");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  options->add_message_to(command);
  options->fence.add_incarnation_to(command);
  command.footer(
      "Carries no fence, whatever the environment says. A `task run` that works on it ends its command.\n"
      "\n"
      "Exit: 0 cancelled; 1 there is no such task, or it is another owner's; 65 the task has ended already.\n"
      "\n"
      "Examples:\n"
      "  holdfast task cancel \"$id\"\n"
      "  holdfast task cancel \"$id\" --message 'not needed any more'");
  command.action([&context, options] { return cancel(context, *options); });
}

void add_task_create(Command task, Context& context) {
  auto command = task.add_command("create", "Create a task and print its id");
  auto options = std::make_shared<CreateOptions>();
  options->owner.add_to(command);
  options->task.add_to(command);
  options->fence.add_to(command, "Bind it at once to the lock that this fence is of");
  command.add_option("NAME=JSON", options->variables, "Variables that it begins with");
  command.footer(
      "The task is `working` from the start. With --request-key a repeated create gives the same task.\n"
      "\n"
      "Exit: 0 created (or there already, by its request key); 65 ttl over 24 h, variables too large, or\n"
      "another request under that key; 75 the owner has 100 tasks already.\n"
      "\n"
      "Examples:\n"
      "  id=$(holdfast task create --method report --ttl 2h)\n"
      "  holdfast task create --request-key \"order-42\" --method ship\n"
      "  holdfast task create progress=0 'input=\"orders.csv\"'");
  command.action([&context, options] { return create(context, *options); });
}

void add_task_rm(Command task, Context& context) {
  auto command = task.add_command("rm", "Remove a task, ended or not");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  options->add_fence_to(command);
  command.footer(
      "Exit: 0 removed; 1 there is no such task, or it is another owner's; 79 the removal came with an old\n"
      "fence, or with another lock's.\n"
      "\n"
      "Examples:\n"
      "  holdfast task rm \"$id\"");
  command.action([&context, options] { return remove(context, *options); });
}

void add_task_cleanup(Command task, Context& context) {
  auto command = task.add_command("cleanup", "Delete what has expired, of all owners");
  command.footer(
      "Expired tasks are gone for everybody at once; this only frees their room. Redis does it by itself.\n"
      "\n"
      "Examples:\n"
      "  holdfast task cleanup");
  command.action([&context] { return cleanup(context); });
}

}  // namespace holdfast::cli
