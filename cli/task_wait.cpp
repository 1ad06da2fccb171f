#include "command.hpp"
#include "context.hpp"
#include "duration.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "progress_line.hpp"
#include "task_access.hpp"
#include "task_output.hpp"

namespace holdfast::cli {
namespace {

struct WaitOptions {
  TaskArgument task;
  std::optional<std::string> timeout;
  std::optional<std::string> status;
};

std::string one_line(const Task& task) {
  std::string line(to_string(task.status));
  if (const auto progress = progress_of(task); !progress.empty()) line += "  " + progress;
  if (task.status_message) line += "  " + printable(*task.status_message);
  return line;
}

int not_reached(const Context& context, const Task& task, const std::string& wanted) {
  const auto message = "the task " + quote(task.id) + " has ended as " + std::string(to_string(task.status)) +
                       " and will not become " + wanted;
  if (context.json) {
    print_task(context, task);
    complain_json("NotReached", message);
  } else {
    complain(message);
  }
  return exit_no_task;
}

int wait(const Context& context, const WaitOptions& options) {
  const auto timeout = options.timeout ? parse_duration("--timeout", *options.timeout) : no_time_limit;
  const auto wanted =
      options.status ? std::optional(parse_status_argument(*options.status)) : std::optional<TaskStatus>();
  auto opened = open_tasks(context);
  std::optional<Task> task;
  {
    ProgressLine progress;
    task = opened.tasks.wait(options.task.owner.name, options.task.id, timeout, [&](const Task& seen) {
      progress.show(one_line(seen));
      return is_final(seen.status) || seen.status == wanted;
    });
  }
  if (!task) {
    const auto message = "the task " + quote(options.task.id) + " has not " +
                         (wanted ? "become " + std::string(to_string(*wanted)) : std::string("ended")) +
                         " within " + describe(timeout);
    if (context.json) {
      complain_json("NotReached", message);
    } else {
      complain(message);
    }
    return exit_no_task;
  }
  if (wanted && task->status != *wanted) return not_reached(context, *task, *options.status);
  if (context.json) {
    print_task(context, *task);
  } else {
    print_text(to_string(task->status));
  }
  return exit_ok;
}

}  // namespace

void add_task_wait(Command task, Context& context) {
  auto command = task.add_command("wait", "Wait until a task has ended");
  auto options = std::make_shared<WaitOptions>();
  options->task.add_to(command);
  command.add_option("--timeout", options->timeout, "Wait this long at most").value_name("DURATION");
  command.add_option("--status", options->status, "Wait for this state instead").value_name("STATUS");
  command.footer(
      "Prints the status it ended with (with --json the task). On a terminal a line shows how far it is.\n"
      "\n"
      "Exit: 0 it has ended, however, or has the --status asked for; 1 not within the --timeout, or it\n"
      "ended otherwise, or there is no such task (any more).\n"
      "\n"
      "Examples:\n"
      "  holdfast task wait \"$id\" && holdfast task result \"$id\"\n"
      "  holdfast task wait \"$id\" --status completed --timeout 5m || echo 'not well, or not yet'");
  command.action(
      [&context, options] { return with_task(options->task, [&] { return wait(context, *options); }); });
}

}  // namespace holdfast::cli
