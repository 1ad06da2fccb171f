#include "arguments/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <holdfast/log.hpp>
#include <holdfast/open.hpp>
#include <holdfast/sqlite.hpp>
#include <string_view>
#include <thread>
#include <utility>

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
  command
      .add_option("--max-tasks N", max_tasks, "Limit on unexpired tasks per owner (default 100; 0: no limit)")
      .between(0, max_count);
  command.add_option("--max-ttl DURATION", max_ttl, "Longest ttl of a task (default 24h)");
  command.add_option("--default-ttl DURATION", default_ttl,
                     "Ttl of a task created without --ttl (default 1h)");
  command
      .add_option("--max-variables BYTES", max_variables,
                  "Limit on a task's variables in bytes, as compact JSON (default 1048576)")
      .between(1, max_bytes);
  command
      .add_option("--max-string BYTES", max_string,
                  "Limit on one string in a variable, in bytes (default 65536)")
      .between(1, max_bytes);
  command.add_option("--max-depth N", max_depth, "Nesting limit of a variable (default 10)")
      .between(0, max_nesting);
  command.add_option("--poll-interval DURATION", poll_interval,
                     "Poll interval suggested to clients of a new task (default 500ms)");
}

void TaskLimits::check() const {
  if (max_ttl) (void)parse_positive_duration("--max-ttl", *max_ttl);
  if (default_ttl) (void)parse_positive_duration("--default-ttl", *default_ttl);
  if (poll_interval) (void)parse_duration("--poll-interval", *poll_interval);
}

TaskOptions TaskLimits::options(const TaskOptions& store, bool allow_anonymous) const {
  auto options = store;
  options.allow_anonymous = allow_anonymous;
  const auto set = [](std::size_t& option, int typed) {
    if (typed != not_given) option = static_cast<std::size_t>(typed);
  };
  set(options.max_tasks_per_owner, max_tasks);
  set(options.max_variables_bytes, max_variables);
  set(options.max_variable_depth, max_depth);
  set(options.max_string_bytes, max_string);
  if (max_ttl) options.max_ttl = parse_positive_duration("--max-ttl", *max_ttl);
  if (default_ttl) {
    options.default_ttl = parse_positive_duration("--default-ttl", *default_ttl);
  } else if (options.default_ttl > options.max_ttl) {
    options.default_ttl = options.max_ttl;
  }
  if (options.default_ttl > options.max_ttl) {
    throw UsageError("--default-ttl: " + describe(options.default_ttl) +
                     " is longer than the longest ttl of a task, " + describe(options.max_ttl) +
                     "; raise --max-ttl");
  }
  if (poll_interval) options.poll_interval = parse_duration("--poll-interval", *poll_interval);
  return options;
}

void QueueLimits::add_to(Command command) {
  command
      .add_option("--queue-limit N", max_tasks,
                  "Limit on tasks in a queue, finished ones included (default 100000; 0: no limit)")
      .between(0, max_count);
}

QueueOptions QueueLimits::options(const QueueOptions& store, const TaskOptions& tasks) const {
  auto options = store;
  options.tasks = tasks;
  if (max_tasks != TaskLimits::not_given) options.max_tasks = static_cast<std::size_t>(max_tasks);
  return options;
}

std::string Context::url_or_default() const {
  if (system) return "system:";
  if (!url.empty()) return url;
  const char* from_environment = std::getenv("HOLDFAST_URL");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment : "sqlite:";
}

namespace {

/// The library's own messages, as lines of the JSON log.
void log_message(LogLevel level, std::string_view message) {
  if (level == LogLevel::debug) return;
  const bool is_error = level == LogLevel::error;
  log_event({.event = is_error ? "error" : "warning",
             .level = is_error ? LogSeverity::error : LogSeverity::warning},
            message);
}

Holdfast open_once(const Context& context, const OpenOptions& options) {
  const auto url = context.url_or_default();
  const auto directory = std::filesystem::path(system_sqlite_file).parent_path();
  std::error_code ignored;
  const bool may_create = url == "system:" && !std::filesystem::exists(directory, ignored);
  Instruments instruments;
  instruments.observer = options.observer;
  instruments.telemetry = log_activities(options.logged);
  instruments.log_sink = options.log_sink;
  if (!instruments.log_sink && logs_json()) instruments.log_sink = log_message;
  instruments.holder = context.holder;
  // People want to know what runs under the lock. The base name only: arguments may contain passwords.
  if (!context.command.empty()) {
    const auto& command = context.command.front();
    instruments.program = command.substr(command.rfind('/') + 1);
  }
  Holdfast holdfast = open(url, instruments);
  if (may_create) {
    const auto mode = std::filesystem::status(directory, ignored).permissions();
    const bool is_shared = (mode & std::filesystem::perms::group_write) != std::filesystem::perms::none;
    complain("created " + directory.string() + ", the store of this machine, for root " +
             (is_shared ? "and its group" : "only"));
  }
  return holdfast;
}

}  // namespace

Holdfast open_store(const Context& context, const OpenOptions& options) {
  const auto begun = BootClock::now();
  auto pause = std::chrono::milliseconds(50);
  bool reported = false;
  while (true) {
    try {
      return open_once(context, options);
    } catch (const Error& error) {
      const auto left = options.retry_for - (BootClock::now() - begun);
      // A file that cannot be opened stays so. unix: is a Redis too.
      const auto url = context.url_or_default();
      const bool is_server = url.starts_with("redis") || url.starts_with("unix:");
      if (!is_server || !error.transient() || left <= pause) throw;
      if (!std::exchange(reported, true))
        complain(printable(error.message()) + "; trying again", {.event = "retrying"});
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(1000));
    }
  }
}

void hide_passwords(int argc, char** argv) noexcept {
  std::for_each(argv, argv + argc, hide_password);
}

}  // namespace holdfast::cli
