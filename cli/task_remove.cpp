#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "task_access.hpp"

namespace holdfast::cli {
namespace {

struct RemoveOptions {
  TaskArgument task;
  FenceOptions fence;
};

bool remove(const Context& context, const RemoveOptions& options) {
  auto opened = open_tasks(context);
  try {
    return tasks_for_writing(opened, options.fence, options.task)
        .remove(options.task.owner.name, options.task.id);
  } catch (const Error& error) {  // the look at its fence found none
    if (error.code() != ErrorCode::NotFound) throw;
    return false;
  }
}

int remove_and_tell(const Context& context, const RemoveOptions& options) {
  const bool removed = remove(context, options);
  if (context.json) {
    print_json(removed ? nlohmann::ordered_json{{"ok", true}}
                       : nlohmann::ordered_json{{"ok", false}, {"reason", "not-found"}});
  } else if (!removed) {
    complain(no_such_task_message(options.task));
  }
  return removed ? exit_ok : exit_no_task;
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

void add_task_rm(Command task, Context& context) {
  auto command = task.add_command("rm", "Remove a task, ended or not");
  auto options = std::make_shared<RemoveOptions>();
  options->task.add_to(command);
  options->fence.add_to(command);
  options->fence.add_incarnation_to(command);
  command.footer(
      "Exit: 0 removed; 1 there is no such task, or it is another owner's; 79 the removal came with an old\n"
      "fence, or with another lock's.\n"
      "\n"
      "Examples:\n"
      "  holdfast task rm \"$id\"");
  command.action([&context, options] { return remove_and_tell(context, *options); });
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
