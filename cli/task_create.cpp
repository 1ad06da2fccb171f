#include <holdfast/memory.hpp>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "new_task.hpp"
#include "output.hpp"
#include "task_access.hpp"
#include "task_output.hpp"

namespace holdfast::cli {
namespace {

struct CreateOptions {
  TaskOwner owner;
  NewTaskOptions task;
  std::vector<std::string> variables;
  FenceOptions fence;
};

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

}  // namespace

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

}  // namespace holdfast::cli
