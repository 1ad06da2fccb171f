#include "task_access.hpp"

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <iterator>

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

/// 15 digits as they are printed, or the plain number.
Fence parse_fence(std::string_view where, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) {
    if (const auto fence = Fence::of(value)) return *fence;
  }
  throw UsageError(std::string(where) + ": " + quote(text) +
                   " is no fence; write its 15 digits or the plain number, 000000000000042 or 42");
}

FencingToken token_of(Locks& locks, Fence fence, std::string_view key) {
  return {.authority = environment("HOLDFAST_AUTHORITY").value_or(locks.authority()),
          .lock_key = LockKey::parse(key).value_or_throw().str(),
          .fence = fence};
}

/// The lock that we run under, if `holdfast run` started us.
std::optional<FencingToken> enclosing_token(Locks& locks) {
  const auto fence = environment("HOLDFAST_FENCE");
  const auto key = environment("HOLDFAST_KEY");
  if (!fence || !key) return std::nullopt;
  return token_of(locks, parse_fence("$HOLDFAST_FENCE", *fence), *key);
}

}  // namespace

void TaskOwner::add_to(Command command) {
  command.add_option("--owner", name, "Whose tasks (default local)").value_name("OWNER");
}

void TaskArgument::add_to(Command command) {
  owner.add_to(command);
  command.add_option("ID", id, "The task's id, which `task create` printed").required();
}

OpenedTasks open_tasks(const Context& context) {
  Holdfast holdfast = open(context.url_or_default());
  Tasks tasks = holdfast.tasks({.allow_anonymous = true});
  return {std::move(holdfast), std::move(tasks)};
}

void FenceOptions::add_to(Command command) {
  command
      .add_option("--fence", fence,
                  "Write under this fence, which binds an unguarded task to its lock. Default: "
                  "$HOLDFAST_FENCE for a task that is bound to $HOLDFAST_KEY")
      .value_name("FENCE");
  command.add_option("--fence-key", key, "The lock that the fence is of (default $HOLDFAST_KEY)")
      .value_name("KEY");
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
  if (const auto token = fence.explicit_token(locks)) return opened.tasks.with_fence(*token);
  const auto enclosing = enclosing_token(locks);
  if (!enclosing) return opened.tasks;
  const auto guarded_by = opened.tasks.get(task.owner.name, task.id).guarded_by;
  const bool same_lock = guarded_by && guarded_by->lock_key == enclosing->lock_key &&
                         guarded_by->authority == enclosing->authority;
  return same_lock ? opened.tasks.with_fence(*enclosing) : opened.tasks;
}

Json parse_json_argument(std::string_view name, std::string_view text) {
  if (auto json = Json::parse(text)) return *std::move(json);
  std::string advice = "JSON text stands in double quotes, which the shell must leave alone";
  if (const auto as_text = Json::string(text); as_text && text.size() <= 60) {
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
