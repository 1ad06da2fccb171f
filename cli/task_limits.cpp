#include "task_limits.hpp"

#include "duration.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {
namespace {

/// Of a whole record: no limit within it can be more.
constexpr int max_bytes = static_cast<int>(RecordData::max_bytes);
/// pmcp-tasks cannot read a record that is nested much deeper.
constexpr int max_nesting = 100;
constexpr int max_count = 1'000'000'000;

}  // namespace

void TaskLimits::add_to(Command command) {
  command.add_option("--max-tasks", max_tasks, "Unexpired tasks of one owner (default 100; 0: no limit)")
      .value_name("N")
      .between(0, max_count);
  command.add_option("--max-ttl", max_ttl, "The longest ttl of a task (default 24h)").value_name("DURATION");
  command.add_option("--default-ttl", default_ttl, "The ttl of a task that names none (default 1h)")
      .value_name("DURATION");
  command
      .add_option(
          "--max-variables", max_variables,
          "Bytes of a task's variables, as JSON without spaces and needless escapes (default 1048576)")
      .value_name("BYTES")
      .between(1, max_bytes);
  command.add_option("--max-string", max_string, "Bytes of one string in a variable (default 65536)")
      .value_name("BYTES")
      .between(1, max_bytes);
  command.add_option("--max-depth", max_depth, "Containers within containers in a variable (default 10)")
      .value_name("N")
      .between(0, max_nesting);
  command
      .add_option("--poll-interval", poll_interval,
                  "How often a new task's clients should look at it (default 500ms)")
      .value_name("DURATION");
}

TaskOptions TaskLimits::options(bool allow_anonymous) const {
  TaskOptions options{.max_tasks_per_owner = static_cast<std::size_t>(max_tasks),
                      .max_variables_bytes = static_cast<std::size_t>(max_variables),
                      .max_variable_depth = static_cast<std::size_t>(max_depth),
                      .max_string_bytes = static_cast<std::size_t>(max_string),
                      .allow_anonymous = allow_anonymous};
  if (max_ttl) options.max_ttl = parse_positive_duration("--max-ttl", *max_ttl);
  if (default_ttl) {
    options.default_ttl = parse_positive_duration("--default-ttl", *default_ttl);
  } else if (options.default_ttl > options.max_ttl) {
    options.default_ttl = options.max_ttl;
  }
  if (options.default_ttl > options.max_ttl) {
    throw UsageError("--default-ttl: " + describe(options.default_ttl) + " is more than the --max-ttl of " +
                     describe(options.max_ttl));
  }
  if (poll_interval) options.poll_interval = parse_duration("--poll-interval", *poll_interval);
  return options;
}

}  // namespace holdfast::cli
