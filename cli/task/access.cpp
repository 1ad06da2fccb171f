#include "task/access.hpp"

#include <cstdlib>

#include "arguments/values.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

/// Empty counts as not set.
std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

/// The authority that counts the fences of this key: the store's, or where each key has its own, that of the
/// lock as it is held now.
std::string authority_of(const Locks& locks, std::string_view key) {
  if (!locks.capabilities().authority_per_key) return locks.authority();
  const auto lock = locks.get_by_key_raw(key);
  if (!lock) throw Error(ErrorCode::StaleFence, "the lock of this fence is not held: released or expired");
  return lock->authority;
}

FencingToken token_of(const Locks& locks, Fence fence, std::string_view key) {
  const auto given = environment("HOLDFAST_AUTHORITY");
  return {.authority = given ? *given : authority_of(locks, key),
          .lock_key = LockKey::parse(key).value_or_throw().str(),
          .fence = fence};
}

/// The lock of the `holdfast run` that started this process.
std::optional<FencingToken> enclosing_token(const Locks& locks) {
  const auto fence = environment("HOLDFAST_FENCE");
  const auto key = environment("HOLDFAST_KEY");
  if (!fence || !key) return std::nullopt;
  return token_of(locks, parse_fence("$HOLDFAST_FENCE", *fence), *key);
}

}  // namespace

Option TaskOwner::add_to(Command command) {
  return command
      .add_option(
          "--owner OWNER", name,
          "Owner of the task (default $HOLDFAST_TASK_OWNER, then local). One with a colon is not shared with "
          "pmcp-tasks")
      .not_empty();
}

std::string TaskOwner::by_default() {
  return environment("HOLDFAST_TASK_OWNER").value_or(anonymous);
}

void TaskArgument::add_to(Command command) {
  owner.add_to(command);
  command.add_option("ID", id, "Task id, as printed by `task create`").required().not_empty();
}

std::string no_such_task_message(const TaskArgument& task) {
  return "there is no task " + quote(task.id) + " of the owner " + quote(task.owner.name) +
         ": removed, expired, of another owner (--owner), or of a queue (holdfast queue get QUEUE ID)";
}

int with_task(const TaskArgument& task, const std::function<int()>& action) {
  try {
    return action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::NotFound) throw;
    throw Error(ErrorCode::NotFound, no_such_task_message(task));
  }
}

int with_queue_task(const std::string& queue, const std::string& id, const std::function<int()>& action) {
  try {
    return action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::NotFound) throw;
    throw Error(ErrorCode::NotFound, "there is no task " + quote(id) + " in the queue " + quote(queue) +
                                         ": removed, expired, or of another queue (holdfast queue list)");
  }
}

OpenedTasks open_tasks(const Context& context, const OpenOptions& options) {
  context.task_limits.check();
  Holdfast holdfast = open_store(context, options);
  Tasks tasks =
      holdfast.tasks(context.task_limits.options(holdfast.task_options(), /*allow_anonymous=*/true));
  return {std::move(holdfast), std::move(tasks)};
}

void FenceOptions::add_to(Command command, const std::string& fence_help) {
  command.add_option("--fence FENCE", fence, fence_help);
  command.add_option("--fence-key KEY", key,
                     "Key of the lock that granted the fence (default $HOLDFAST_KEY)");
}

void FenceOptions::add_incarnation_to(Command command) {
  command
      .add_option(
          "--incarnation INCARNATION", incarnation,
          "Only the task of this incarnation (see `task get --json`), not a later task with the same id.\n"
          "Default: $HOLDFAST_TASK_INCARNATION for the task that this command runs as")
      .not_empty();
}

Tasks FenceOptions::with_incarnation(OpenedTasks& opened, const TaskArgument& task) const {
  if (incarnation && incarnation->starts_with('~')) {
    throw UsageError("--incarnation: " + quote(*incarnation) +
                     " is not a lasting incarnation: the task was written by other software. Omit "
                     "--incarnation, or claim the task first to give it one");
  }
  if (incarnation) return opened.tasks.with_incarnation(*incarnation);
  // A store has many URLs, so its authority decides. One that lost its data has a new authority under its old
  // URL: a task of this id there is a successor too.
  const bool same_store = environment("HOLDFAST_AUTHORITY") == opened.holdfast.locks().authority() ||
                          environment("HOLDFAST_URL") == opened.holdfast.url();
  const bool runs_as_it = environment("HOLDFAST_TASK_ID") == task.id &&
                          environment("HOLDFAST_TASK_OWNER") == task.owner.name && same_store;
  if (!runs_as_it) return opened.tasks;
  return opened.tasks.with_incarnation(environment("HOLDFAST_TASK_INCARNATION").value_or(""));
}

std::optional<FencingToken> FenceOptions::explicit_token(const Locks& locks) const {
  if (!fence) {
    // With the fence of the environment it would bind one lock's task to another's counter.
    if (key) throw UsageError("--fence-key: requires --fence, the fence of that lock");
    return std::nullopt;
  }
  const auto parsed = parse_fence("--fence", *fence);
  const auto of_lock = key ? key : environment("HOLDFAST_KEY");
  if (!of_lock) {
    throw UsageError("--fence: the lock is missing; add --fence-key KEY (or set HOLDFAST_KEY)");
  }
  return token_of(locks, parsed, *of_lock);
}

std::optional<FencingToken> FenceOptions::any_token(const Locks& locks) const {
  auto token = explicit_token(locks);
  return token ? token : enclosing_token(locks);
}

Tasks tasks_for_writing(OpenedTasks& opened, const FenceOptions& fence, const TaskArgument& task) {
  auto& locks = opened.holdfast.locks();
  auto tasks = fence.with_incarnation(opened, task);
  if (const auto token = fence.explicit_token(locks)) return tasks.with_fence(*token);
  const auto enclosing = enclosing_token(locks);
  if (!enclosing) return tasks;
  const auto bound_to = tasks.get(task.owner.name, task.id).bound_to;
  const bool same_lock =
      bound_to && bound_to->lock_key == enclosing->lock_key && bound_to->authority == enclosing->authority;
  return same_lock ? tasks.with_fence(*enclosing) : tasks;
}

void NewTaskOptions::add_to(Command command) {
  command.add_option(
      "--ttl DURATION", ttl,
      "Lifetime of the task from its creation, whatever its status (default 1h, at most 24h, see\n"
      "`holdfast task --help`; it cannot be extended)");
  command.add_option("--method TEXT", method, "Name of the work, free text");
  command.add_option("--request-key KEY", request_key,
                     "Idempotency key: the same key returns the same task until that task is gone");
}

NewTask NewTaskOptions::request() const {
  NewTask request{.method = method};
  if (ttl) request.ttl = parse_positive_duration("--ttl", *ttl);
  if (request_key) {
    // Empty would mean none, and a script with an unset variable would create a task each time.
    if (request_key->empty()) throw UsageError("--request-key: is empty; omit it, or name the request");
    request.request_key = *request_key;
  }
  return request;
}

}  // namespace holdfast::cli
