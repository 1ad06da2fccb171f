#include "arguments/task_filter.hpp"

#include "arguments/values.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

void TaskFilter::add_to(Command command) {
  command.add_option("--status STATUS", status, "Only tasks with this status");
  command.add_option("--older-than DURATION", older_than, "Only tasks created at least this long ago");
  command.add_flag("--oldest-first", oldest_first, "List the oldest tasks first");
  command.add_flag("--unclaimed", unclaimed, "Only tasks that are `working` while no worker holds them");
}

ListTasks TaskFilter::selection() const {
  ListTasks what{.oldest_first = oldest_first, .unclaimed = unclaimed};
  if (status) what.status = parse_status_argument(*status);
  if (older_than) what.older_than = parse_duration("--older-than", *older_than);
  return what;
}

std::string TaskFilter::as_typed() const {
  std::string options;
  if (status) options += " --status " + shell_word(*status);
  if (older_than) options += " --older-than " + shell_word(*older_than);
  if (oldest_first) options += " --oldest-first";
  if (unclaimed) options += " --unclaimed";
  return options;
}

}  // namespace holdfast::cli
