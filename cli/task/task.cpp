#include "task/task.hpp"

#include <cmath>
#include <holdfast/output_requests.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

namespace {

/// Text that fits a cell of a table.
std::string cell(std::string_view text) {
  constexpr std::size_t columns = 40;
  return shortened(printable(text), columns);
}

std::string when(WallTime time) {
  return iso_time(time) + " (" + describe(time_since(time)) + " ago)";
}

std::string guard_of(const std::optional<FencingToken>& token) {
  if (!token) return "none";
  return token->fence.to_string() + " of the lock " + token->lock_key + " (authority " + token->authority +
         ")";
}

void add_queue_fields(Fields& fields, const Task& task) {
  if (!task.queue) return;
  const auto& state = *task.queue;
  auto attempts = std::to_string(state.attempts) + " of " + std::to_string(state.terms.max_attempts);
  if (state.deaths > 0) attempts += " (" + std::to_string(state.deaths) + " workers died)";
  fields.emplace_back("place", rpc::to_string(state.place));
  fields.emplace_back("attempts", std::move(attempts));
  if (state.terms.priority != 0) fields.emplace_back("priority", std::to_string(state.terms.priority));
  if (!state.terms.limit_key.empty()) {
    fields.emplace_back("limit key", state.terms.limit_key + ", limit " + std::to_string(state.terms.limit));
  }
  if (state.place == QueuePlace::delayed) fields.emplace_back("due", expiry(state.due_at));
  if (!state.worker.empty()) {
    const bool works = state.place == QueuePlace::leased;
    fields.emplace_back(works ? "worker" : "last worker", state.worker);
    fields.emplace_back(works ? "working since" : "claimed", when(state.claimed_at));
    if (works) fields.emplace_back("lease", expiry(state.lease_expires_at));
  }
}

}  // namespace

void add_keep_output(Command command, int& keep) {
  command
      .add_option(
          "--keep-output BYTES", keep,
          "How much of stdout and of stderr is kept for `task logs`: the end. 0: none (default 65536)")
      .between(0, static_cast<int>(max_kept_bytes));
}

void print_task(const Context& context, const Task& task, const std::optional<LockInfo>& worker) {
  if (context.json) {
    print_json_text(rpc::to_json(task, worker));
    return;
  }
  Fields fields{{"id", task.id}, {"owner", task.owner}, {"status", std::string(to_string(task.status))}};
  if (task.status_message) fields.emplace_back("message", *task.status_message);
  if (!task.request_method.empty()) fields.emplace_back("method", task.request_method);
  if (const auto queue = queue_of(task)) fields[1] = {"queue", *queue};
  if (!task.requester.empty()) fields.emplace_back("requester", task.requester);
  if (!task.retry_of.empty()) fields.emplace_back("retry of", task.retry_of);
  add_queue_fields(fields, task);
  if (worker) {
    fields.emplace_back("worker", worker->holder ? std::string(worker->holder->str()) : "not labelled");
    fields.emplace_back("working since", when(worker->acquired_at));
    fields.emplace_back("lease", expiry(worker->expires_at));
  }
  fields.emplace_back("created", when(task.created_at));
  fields.emplace_back("updated", when(task.last_updated_at));
  fields.emplace_back("expires", task.expires_at ? expiry(*task.expires_at) : "never");
  fields.emplace_back("variables", rpc::on_one_line(task.variables.str()));
  fields.emplace_back("result", rpc::on_one_line(task.result.str()));
  fields.emplace_back("version", std::to_string(task.version));
  fields.emplace_back("fence", guard_of(task.bound_to));
  print_fields(fields);
}

std::vector<std::string> task_columns() {
  return {"ID", "STATUS", "AGE", "TTL LEFT", "PROGRESS", "METHOD"};
}

std::vector<std::string> task_row(const Task& task) {
  return {printable(task.id),
          std::string(to_string(task.status)),
          describe(time_since(task.created_at)),
          task.expires_at ? describe(time_until(*task.expires_at)) : "-",
          progress_of(task),
          cell(task.request_method)};
}

void complain_unreadable(const Context& context, std::string_view owner, const Error& error) {
  complain_left_out(context, "a task of the owner " + quote(owner), error);
}

Error no_owner(std::string_view stored) {
  return {ErrorCode::Internal,
          "records are stored under the owner " + quote(stored) +
              ", which is not a valid stored owner name; find the program that wrote them"};
}

void complain_left_out(const Context& context, std::string_view what, const Error& error) {
  const auto message = std::string(what) + " is left out: " + error.message();
  complain(context.json, to_string(error.code()), context.json ? message : printable(message));
}

void print_changed(const Context& context, const Task& task) {
  if (context.json) print_json_text(rpc::to_json(task));
}

std::string progress_of(const Task& task) {
  std::string_view progress;
  for (const auto& [name, value] : rpc::members_of(task.variables)) {
    if (name == "progress") progress = value;
  }
  if (progress.empty()) return {};
  if (progress.front() == '{' || progress.front() == '[') return cell(rpc::on_one_line(progress));
  const auto value = nlohmann::json::parse(progress);
  if (value.is_string()) return cell(value.get<std::string>());
  if (value.is_number()) {
    const auto number = value.get<double>();
    const bool fraction = value.is_number_float() && number >= 0 && number <= 1;
    const bool percentage = number == 0 || (number > 1 && number <= 100);
    if (fraction || percentage) return std::to_string(std::lround(fraction ? number * 100 : number)) + " %";
  }
  return cell(progress);
}

void fill_task(Command task, Context& context) {
  task.require_subcommand();
  context.task_limits.add_to(task);
  task.footer(
      "A task is a record of requested work: a status, variables, and finally a result. It starts as "
      "`working`,\n"
      "may switch to `input_required` and back, and ends once, as `completed`, `failed` or `cancelled`; "
      "after\n"
      "that it cannot be changed. It expires after its ttl, which counts from its creation (--ttl, default "
      "1h,\n"
      "at most 24h), whether it has ended or not.\n"
      "\n"
      "The options here limit what this command writes. They may also follow the subcommand:\n"
      "`holdfast task create --max-ttl 7d --ttl 3d`.\n"
      "\n"
      "Each task has an owner (--owner, default $HOLDFAST_TASK_OWNER, then local). Other owners do not see "
      "it.\n"
      "\n"
      "A task may be bound to a lock (`task bind`, `task run`, or a write with --fence). It records the "
      "highest\n"
      "fence it has seen and rejects a write with a lower one: a worker that lost the lock cannot overwrite "
      "the\n"
      "work of the next holder. Under `holdfast run`, writes to a task that is bound to that lock carry the\n"
      "fence automatically.\n"
      "\n"
      "Examples:\n"
      "  holdfast task run --method backup --ttl 8h -- ./backup.sh   run a command as a task\n"
      "  id=$(holdfast task create --method report)                  or step by step\n"
      "  holdfast task set \"$id\" progress=0.5\n"
      "  holdfast task complete \"$id\" --result '{\"rows\":42}'\n"
      "  holdfast task list\n"
      "  holdfast task wait \"$id\" && holdfast task result \"$id\"\n"
      "  holdfast task logs -f \"$id\"\n"
      "  holdfast task cancel \"$id\"\n"
      "  holdfast task add render --variables '{\"n\":7}'             or for a pool of workers:\n"
      "  holdfast task work render -j 4 -- ./render.sh");
  add_task_run(task, context);
  add_task_add(task, context);
  add_task_work(task, context);
  add_task_create(task, context);
  add_task_get(task, context);
  add_task_list(task, context);
  add_task_update(task, context);
  add_task_set(task, context);
  add_task_complete(task, context);
  add_task_fail(task, context);
  add_task_cancel(task, context);
  add_task_wait(task, context);
  add_task_watch(task, context);
  add_task_result(task, context);
  add_task_logs(task, context);
  add_task_rm(task, context);
  add_task_bind(task, context);
  add_task_rebind(task, context);
  add_task_cleanup(task, context);
}

}  // namespace holdfast::cli
