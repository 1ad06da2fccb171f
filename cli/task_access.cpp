#include "task_access.hpp"

#include <cstdlib>
#include <iostream>
#include <iterator>

#include "fence_argument.hpp"
#include "output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {
namespace {

/// Empty counts as not set.
std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

FencingToken token_of(Locks& locks, Fence fence, std::string_view key) {
  return {.authority = environment("HOLDFAST_AUTHORITY").value_or(locks.authority()),
          .lock_key = LockKey::parse(key).value_or_throw().str(),
          .fence = fence};
}

/// "line 1, column 6", as the parser's own words have it among others; empty if they do not.
std::string place_of_error(std::string_view cause) {
  const auto start = cause.find("line ");
  if (start == std::string_view::npos) return {};
  const auto end = cause.find_first_not_of("line coumn,0123456789", start);
  return std::string(cause.substr(start, end - start));
}

/// The lock that we run under, if `holdfast run` started us.
std::optional<FencingToken> enclosing_token(Locks& locks) {
  const auto fence = environment("HOLDFAST_FENCE");
  const auto key = environment("HOLDFAST_KEY");
  if (!fence || !key) return std::nullopt;
  return token_of(locks, parse_fence("$HOLDFAST_FENCE", *fence), *key);
}

}  // namespace

Option TaskOwner::add_to(Command command) {
  return command.add_option("--owner", name, "Whose tasks (default $HOLDFAST_TASK_OWNER, then local)")
      .value_name("OWNER")
      .not_empty();
}

std::string TaskOwner::by_default() {
  return environment("HOLDFAST_TASK_OWNER").value_or(nobody_in_particular);
}

void TaskArgument::add_to(Command command) {
  owner.add_to(command);
  command.add_option("ID", id, "The task's id, which `task create` printed").required().not_empty();
}

std::string no_such_task_message(const TaskArgument& task) {
  return "there is no task " + quote(task.id) + " of the owner " + quote(task.owner.name) +
         ": it was removed, has expired, or is another owner's (--owner)";
}

int with_task(const TaskArgument& task, const std::function<int()>& action) {
  try {
    return action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::NotFound) throw;
    throw Error(ErrorCode::NotFound, no_such_task_message(task));
  }
}

OpenedTasks open_tasks(const Context& context) {
  const auto limits = context.task_limits.options(/*allow_anonymous=*/true);
  Holdfast holdfast = open(context.url_or_default());
  Tasks tasks = holdfast.tasks(limits);
  return {std::move(holdfast), std::move(tasks)};
}

void FenceOptions::add_to(Command command, const std::string& fence_help) {
  command.add_option("--fence", fence, fence_help).value_name("FENCE");
  command.add_option("--fence-key", key, "The lock that the fence is of (default $HOLDFAST_KEY)")
      .value_name("KEY");
}

void FenceOptions::add_incarnation_to(Command command) {
  command
      .add_option(
          "--incarnation", incarnation,
          "The task of this incarnation, which `task get --json` shows, and no other that got its id.\n"
          "Default: $HOLDFAST_TASK_INCARNATION for the task that this command runs as")
      .value_name("INCARNATION")
      .not_empty();
}

Tasks FenceOptions::tasks_meant(const OpenedTasks& opened, const TaskArgument& task) const {
  if (incarnation) return opened.tasks.with_incarnation(*incarnation);
  const bool runs_as_it = environment("HOLDFAST_TASK_ID") == task.id &&
                          environment("HOLDFAST_TASK_OWNER") == task.owner.name &&
                          environment("HOLDFAST_URL") == opened.holdfast.url();
  if (!runs_as_it) return opened.tasks;
  return opened.tasks.with_incarnation(environment("HOLDFAST_TASK_INCARNATION").value_or(""));
}

std::optional<FencingToken> FenceOptions::explicit_token(Locks& locks) const {
  if (!fence) {
    // With the fence of the environment it would bind one lock's task to another's counter.
    if (key) throw UsageError("--fence-key: needs --fence, the fence of that lock");
    return std::nullopt;
  }
  const auto parsed = parse_fence("--fence", *fence);
  const auto of_lock = key ? key : environment("HOLDFAST_KEY");
  if (!of_lock) {
    throw UsageError("--fence: say of which lock it is, with --fence-key KEY (or $HOLDFAST_KEY)");
  }
  return token_of(locks, parsed, *of_lock);
}

std::optional<FencingToken> FenceOptions::any_token(Locks& locks) const {
  auto token = explicit_token(locks);
  return token ? token : enclosing_token(locks);
}

Tasks tasks_for_writing(OpenedTasks& opened, const FenceOptions& fence, const TaskArgument& task) {
  auto& locks = opened.holdfast.locks();
  auto tasks = fence.tasks_meant(opened, task);
  if (const auto token = fence.explicit_token(locks)) return tasks.with_fence(*token);
  const auto enclosing = enclosing_token(locks);
  if (!enclosing) return tasks;
  const auto guarded_by = tasks.get(task.owner.name, task.id).guarded_by;
  const bool same_lock = guarded_by && guarded_by->lock_key == enclosing->lock_key &&
                         guarded_by->authority == enclosing->authority;
  return same_lock ? tasks.with_fence(*enclosing) : tasks;
}

Json parse_json_argument(std::string_view name, std::string_view text) {
  auto json = Json::parse(text);
  if (json) return *std::move(json);
  const auto start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) {
    throw UsageError(std::string(name) + ": is empty, and JSON is not; write null, or '\"\"' for empty text");
  }
  std::string advice = "names and text stand in double quotes, which the shell must leave alone";
  if (text[start] == '{' || text[start] == '[') {
    // The place is counted from there.
    if (const auto place = place_of_error(json.error().cause()); start == 0 && !place.empty()) {
      advice = "look at " + place + "; " + advice;
    }
  } else if (const auto as_text = Json::string(text); as_text && text.size() <= 60) {
    advice = "if it is meant to be text, write " + shell_word(as_text->str());
  }
  throw UsageError(std::string(name) + ": " + quote(text.substr(0, 100)) + " is not JSON; " + advice);
}

Json read_json_argument(std::string_view name, std::string_view text) {
  if (text != "-") return parse_json_argument(name, text);
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  return parse_json_argument("standard input", input);
}

TaskStatus parse_status_argument(std::string_view text) {
  if (const auto status = parse_task_status(text)) return *status;
  throw UsageError(quote(text) +
                   " is no status; a task is working, input_required, completed, failed or cancelled");
}

}  // namespace holdfast::cli
