#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "task_access.hpp"
#include "task_output.hpp"

namespace holdfast::cli {
namespace {

int get(const Context& context, const TaskArgument& task) {
  print_task(context, open_tasks(context).tasks.get(task.owner.name, task.id));
  return exit_ok;
}

int result(const Context& context, const TaskArgument& task) {
  const auto found = open_tasks(context).tasks.get_result(task.owner.name, task.id);
  const auto value = found.value_or(Json());
  if (context.json) {
    print_json_text(value);
  } else {
    print_json_for_people(value);
  }
  return exit_ok;
}

}  // namespace

void add_task_get(Command task, Context& context) {
  auto command = task.add_command("get", "Show a task");
  auto options = std::make_shared<TaskArgument>();
  options->add_to(command);
  command.footer(
      "With --json the record as it is stored, `version`, `incarnation` and `fence` added at its end.\n"
      "\n"
      "Exit: 0 found; 1 there is no such task, or it is another owner's.\n"
      "\n"
      "Examples:\n"
      "  holdfast task get \"$id\"\n"
      "  holdfast --json task get \"$id\" | jq -r .task.status");
  command.action([&context, options] { return with_task(*options, [&] { return get(context, *options); }); });
}

void add_task_result(Command task, Context& context) {
  auto command = task.add_command("result", "Print the result of a task that has ended");
  auto options = std::make_shared<TaskArgument>();
  options->add_to(command);
  command.footer(
      "JSON in either case, with --json on one line; null if the task ended without a result.\n"
      "\n"
      "Exit: 0 the task has ended, however; 1 it has not (see `task wait`), or there is none.\n"
      "\n"
      "Examples:\n"
      "  holdfast task result \"$id\"\n"
      "  holdfast --json task result \"$id\" | jq -r .stdout");
  command.action(
      [&context, options] { return with_task(*options, [&] { return result(context, *options); }); });
}

}  // namespace holdfast::cli
