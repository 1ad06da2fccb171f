#include "arguments/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "arguments/values.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

/// Of a whole record: no part of it can be larger.
constexpr int max_bytes = static_cast<int>(RecordData::max_bytes);
/// pmcp-tasks cannot read a record that is nested much deeper.
constexpr int max_nesting = 100;
constexpr int max_count = 1'000'000'000;

/// Of a URL of any scheme: an engine that is added later cannot be forgotten here.
void hide_password(char* argument) noexcept {
  constexpr std::string_view behind_scheme = "://";
  const std::string_view text(argument);
  const auto start = text.find(behind_scheme);
  const auto at = text.rfind('@');
  if (start == std::string_view::npos || at == std::string_view::npos) return;
  const auto colon = text.find(':', start + behind_scheme.size());
  if (colon < at) std::fill(argument + colon + 1, argument + at, '*');
}

}  // namespace

void TaskLimits::add_to(Command command) {
  command.add_option("--max-tasks N", max_tasks, "Unexpired tasks of one owner (default 100; 0: no limit)")
      .between(0, max_count);
  command.add_option("--max-ttl DURATION", max_ttl, "The longest ttl of a task (default 24h)");
  command.add_option("--default-ttl DURATION", default_ttl, "The ttl of a task that names none (default 1h)");
  command
      .add_option(
          "--max-variables BYTES", max_variables,
          "Bytes of a task's variables, as JSON without spaces and needless escapes (default 1048576)")
      .between(1, max_bytes);
  command.add_option("--max-string BYTES", max_string, "Bytes of one string in a variable (default 65536)")
      .between(1, max_bytes);
  command.add_option("--max-depth N", max_depth, "Containers within containers in a variable (default 10)")
      .between(0, max_nesting);
  command.add_option("--poll-interval DURATION", poll_interval,
                     "How often a new task's clients should look at it (default 500ms)");
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

std::string Context::url_or_default() const {
  if (system) return "system:";
  if (!url.empty()) return url;
  const char* from_environment = std::getenv("HOLDFAST_URL");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment : "sqlite:";
}

void hide_passwords(int argc, char** argv) noexcept {
  std::for_each(argv, argv + argc, hide_password);
}

}  // namespace holdfast::cli
