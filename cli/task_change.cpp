#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "new_task.hpp"
#include "task_access.hpp"
#include "task_output.hpp"

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
    command.add_option("--message", message, "What people should know about it").value_name("TEXT");
  }
};

constexpr const char* exit_codes_of_changes =
    "Exit: 0 done; 1 there is no such task, or it is another owner's; 65 the task has ended or the rules\n"
    "forbid it; 79 the write came with an old fence, or with another lock's.\n"
    "\n";

/// What every change does: check what was typed (in `change`'s making), open, find out which fence, write.
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

/// Whoever asked for a task may call it off, whoever works on it: no fence, not even from the environment.
int cancel(const Context& context, const ChangeOptions& options) {
  return with_task(options.task, [&] {
    auto opened = open_tasks(context);
    print_changed(context, opened.tasks.cancel(options.task.owner.name, options.task.id, options.message));
    return exit_ok;
  });
}

}  // namespace

void add_task_update(Command task, Context& context) {
  auto command = task.add_command("update", "Change a task's status");
  auto options = std::make_shared<ChangeOptions>();
  options->task.add_to(command);
  command.add_option("STATUS", options->status, "working, input_required, completed, failed or cancelled")
      .required();
  options->add_message_to(command);
  options->fence.add_to(command);
  options->fence.add_incarnation_to(command);
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
  options->fence.add_to(command);
  options->fence.add_incarnation_to(command);
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
  command.add_option("--result", options->result, "What came of it; - reads it from standard input")
      .value_name("JSON");
  options->add_message_to(command);
  options->fence.add_to(command);
  options->fence.add_incarnation_to(command);
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
  options->fence.add_to(command);
  options->fence.add_incarnation_to(command);
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

}  // namespace holdfast::cli
