#include <holdfast/memory.hpp>
#include <holdfast/open.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "arguments/values.hpp"
#include "task/task.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

struct AddOptions {
  std::string queue;
  std::string from;  ///< "-": tasks from standard input
  std::string method;
  std::optional<std::string> variables;
  int priority = 0;
  std::optional<std::string> delay;
  int attempts = static_cast<int>(NewQueueTask{}.max_attempts);
  std::optional<std::string> time_limit;
  std::optional<std::string> max_age;
  std::optional<std::string> retention;
  std::optional<std::string> failed_retention;
  std::string limit_key;
  int limit = 0;  ///< 0: not given
  std::string request_key;
  std::string requester;
  QueueLimits limits;
};

constexpr int max_priority = 1000;
constexpr int max_attempts = 1'000'000;
constexpr int max_limit = 1'000'000;

/// What a task is added with; owns its text.
struct Added {
  std::string method, request_key, requester, limit_key;
  Json variables;
  NewQueueTask terms;

  [[nodiscard]] NewQueueTask request() const {
    auto task = terms;
    task.method = method;
    task.variables = variables;
    task.request_key = request_key;
    task.requester = requester;
    task.limit_key = limit_key;
    return task;
  }
};

/// A worker stops its command up to 5.5 s before the attempt must have ended: a shorter limit leaves it no
/// time.
constexpr std::chrono::seconds shortest_time_limit(10);

std::chrono::milliseconds parse_time_limit(const std::string& name, const std::string& text) {
  const auto limit = parse_duration(name, text);
  if (limit == std::chrono::milliseconds::zero() || limit >= shortest_time_limit) return limit;
  throw UsageError(name + ": " + quote(text) + " is too short; use at least " +
                   describe(shortest_time_limit) +
                   ", because a worker begins to stop its command before the limit. 0 is no limit");
}

Added of_options(const AddOptions& options) {
  Added added;
  added.method = options.method;
  added.request_key = options.request_key;
  added.requester = options.requester;
  added.limit_key = options.limit_key;
  if (options.limit > 0) added.terms.limit = static_cast<std::uint32_t>(options.limit);
  if (options.variables) added.variables = read_json_argument("--variables", *options.variables);
  added.terms.priority = options.priority;
  added.terms.max_attempts = static_cast<std::uint32_t>(options.attempts);
  if (options.delay) added.terms.delay = parse_duration("--delay", *options.delay);
  if (options.time_limit) added.terms.attempt_limit = parse_time_limit("--time-limit", *options.time_limit);
  if (options.max_age) added.terms.max_age = parse_positive_duration("--max-age", *options.max_age);
  if (options.retention) added.terms.retention = parse_duration("--retention", *options.retention);
  if (options.failed_retention) {
    added.terms.failed_retention = parse_duration("--failed-retention", *options.failed_retention);
  }
  return added;
}

/// One line of standard input: an object whose members replace what the options say. Throws UsageError.
Added of_line(const Added& defaults, const std::string& line, std::size_t number) {
  const auto where = "task add: line " + std::to_string(number);
  const auto json = Json::parse(line);
  if (!json || !json->is_object()) {
    throw UsageError(where + R"( is not a JSON object such as {"variables":{"n":7},"priority":5})");
  }
  auto added = defaults;
  bool has_limit = false;
  for (const auto& [name, value] : members_of(*json)) {
    const auto must_be = [&where, &member = name](const std::string& what) {
      return UsageError(std::string(where).append(": ").append(member).append(" must be ") + what);
    };
    const auto text = [&] {
      if (auto string = string_in(value)) return *std::move(string);
      throw must_be("a string");
    };
    const auto duration = [&] {
      if (auto string = string_in(value)) return *std::move(string);
      throw must_be("a duration in quotes, such as \"30s\"");
    };
    // An empty key would be none: the line would be added again by each run.
    const auto key = [&] {
      auto string = text();
      if (string.empty()) throw must_be("a text that is not empty");
      return string;
    };
    const auto whole = [&](std::int64_t lowest, std::int64_t highest) {
      const auto parsed = ordered_json::parse(value, nullptr, false);
      const bool is_huge =
          parsed.is_number_unsigned() && parsed.get<std::uint64_t>() > static_cast<std::uint64_t>(highest);
      if (parsed.is_number_integer() && !is_huge) {
        const auto n = parsed.get<std::int64_t>();
        if (n >= lowest && n <= highest) return n;
      }
      throw must_be("a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
    };
    if (name == "method") {
      added.method = text();
    } else if (name == "variables") {
      added.variables = Json::parse(value).value_or_throw();
    } else if (name == "priority") {
      added.terms.priority = static_cast<std::int32_t>(whole(-max_priority, max_priority));
    } else if (name == "delay") {
      added.terms.delay = parse_duration(where + ": delay", duration());
    } else if (name == "attempts") {
      added.terms.max_attempts = static_cast<std::uint32_t>(whole(1, max_attempts));
    } else if (name == "timeLimit") {
      added.terms.attempt_limit = parse_time_limit(where + ": timeLimit", duration());
    } else if (name == "maxAge") {
      added.terms.max_age = parse_positive_duration(where + ": maxAge", duration());
    } else if (name == "retention") {
      added.terms.retention = parse_duration(where + ": retention", duration());
    } else if (name == "failedRetention") {
      added.terms.failed_retention = parse_duration(where + ": failedRetention", duration());
    } else if (name == "limitKey") {
      added.limit_key = key();
    } else if (name == "limit") {
      added.terms.limit = static_cast<std::uint32_t>(whole(1, max_limit));
      has_limit = true;
    } else if (name == "requestKey") {
      added.request_key = key();
    } else if (name == "requester") {
      added.requester = text();
    } else {
      throw UsageError(where + ": unknown member " + quote(name) +
                       "; known: method, variables, priority, delay, attempts, timeLimit, maxAge, retention, "
                       "failedRetention, limitKey, limit, requestKey, requester");
    }
  }
  if (has_limit && added.limit_key.empty()) {
    throw UsageError(where + ": limit is the limit of a key; add limitKey");
  }
  return added;
}

void add_one(const Context& context, const Queue& queue, const Added& added) {
  const auto task = queue.add(added.request());
  if (context.json) {
    print_task(context, task);
  } else {
    print_text(task.id);
  }
}

int add(const Context& context, const AddOptions& options) {
  if (!options.from.empty() && options.from != "-") {
    throw UsageError("task add: unexpected argument " + quote(options.from) +
                     "; write - to read tasks from standard input, and --variables JSON for one task");
  }
  if (!options.from.empty() && options.variables == "-") {
    throw UsageError(
        "task add: - and --variables - would both read standard input; write the variables into its lines");
  }
  context.task_limits.check();
  const auto defaults = of_options(options);
  if (!options.from.empty() && !options.request_key.empty()) {
    throw UsageError("task add: --request-key names one task; with - give each line its own requestKey");
  }
  if (options.from.empty() && options.limit > 0 && options.limit_key.empty()) {
    throw UsageError(
        "task add: --limit is the limit of a key; add --limit-key KEY. For the whole queue use: " +
        ("holdfast queue limit " + shell_word(options.queue)) + " " + std::to_string(options.limit));
  }
  const auto holdfast = open_store(context);
  if (holdfast.locks().capabilities().backend == memory_capabilities.backend) {
    complain(
        "warning: memory: is private to this process, so the task is gone when this command exits; use "
        "sqlite:PATH");
  }
  const auto& store = holdfast.queue_options();
  const auto queue = holdfast.queue(
      options.queue, options.limits.options(store, context.task_limits.options(store.tasks, true)));
  if (options.from.empty()) {
    add_one(context, queue, defaults);
    return exit_ok;
  }
  std::string line;
  for (std::size_t number = 1;; ++number) {
    const bool has_line = static_cast<bool>(std::getline(std::cin, line));
    // A line that an error cut off is not added either.
    if (std::cin.eof() || !has_line) {
      check_standard_input(number == 1 ? "task add" : "task add: after line " + std::to_string(number - 1));
    }
    if (!has_line) break;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto added = of_line(defaults, line, number);
    try {
      add_one(context, queue, added);
    } catch (const Error& error) {
      throw Error(error.code(), "task add: line " + std::to_string(number) + ": " + error.message(),
                  error.cause())
          .with(error.effect());
    }
  }
  return exit_ok;
}

}  // namespace

void add_task_add(Command task, Context& context) {
  auto command = task.add_command("add", "Add a task to a queue");
  auto options = std::make_shared<AddOptions>();
  command.add_option("QUEUE", options->queue, "Name of the queue; it need not exist").required().not_empty();
  command.add_option("FROM", options->from, "- adds a task for each line of standard input, a JSON object");
  command.add_option("--method TEXT", options->method, "What is to be done, for people and the worker");
  command.add_option("--variables JSON", options->variables, "The variables: a JSON object; - reads stdin");
  command.add_option("--priority N", options->priority, "Higher ones are claimed first (default 0)")
      .between(-max_priority, max_priority);
  command.add_option("--delay DURATION", options->delay, "Not claimable before this time has passed");
  command.add_option("--attempts N", options->attempts, "Attempts until the task is failed (default 5)")
      .between(1, max_attempts);
  command.add_option(
      "--time-limit DURATION", options->time_limit,
      "Longest time of one attempt, at least 10s (default: no limit). The worker stops the command "
      "in time for its --grace");
  command.add_option("--max-age DURATION", options->max_age,
                     "An unfinished task is failed this long after it was due (default 14d)");
  command.add_option("--retention DURATION", options->retention,
                     "How long the task is kept after its end, unless it is failed (default 24h)");
  command.add_option("--failed-retention DURATION", options->failed_retention,
                     "How long a failed task is kept (default 14d)");
  command
      .add_option("--limit-key KEY", options->limit_key,
                  "At most --limit tasks with this key are worked on at once, for example of one customer")
      .not_empty();
  command.add_option("--limit N", options->limit, "The limit of the key (default 1)").between(1, max_limit);
  command
      .add_option("--request-key KEY", options->request_key,
                  "Add the task once, however often this command runs with this key")
      .not_empty();
  command.add_option("--requester TEXT", options->requester, "For whom the work is done");
  options->limits.add_to(command);
  command.usage("Usage: holdfast task add [OPTIONS] QUEUE [-]\n");
  command.footer(
      "Prints the id of the task. Workers claim tasks by priority, then in the order in which they became "
      "due.\n"
      "Strictly: as long as there are tasks of a higher priority, one of a lower priority is not claimed.\n"
      "\n"
      "With `-`, each line of standard input is a JSON object with any of the members method, variables,\n"
      "priority, delay, attempts, timeLimit, maxAge, retention, failedRetention, limitKey, limit, requestKey "
      "and\n"
      "requester; options give the defaults. One id is printed for each line, as soon as its task is stored. "
      "Lines\n"
      "with a requestKey can be repeated after a failure: they add nothing twice.\n"
      "\n"
      "Exit: 0 added, or already added under this request key; 65 the key was used for another task, or a "
      "limit\n"
      "forbids it; 75 the queue is full; 64 usage; 69 store unavailable.\n"
      "\n"
      "Examples:\n"
      "  holdfast task add render --variables '{\"frame\":7}' --priority 5\n"
      "  holdfast task add mail --request-key \"welcome-$user\" --delay 10m\n"
      "  holdfast task add sync --limit-key \"$customer\"       one at a time for each customer\n"
      "  jq -c '{variables: .}' frames.jsonl | holdfast task add render -\n"
      "  holdfast queue wait render \"$(holdfast task add render)\"");
  command.action([&context, options] { return add(context, *options); });
}

}  // namespace holdfast::cli
