#include "task/task.hpp"

#include <cmath>
#include <holdfast/output_requests.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "terminal/output.hpp"
#include "terminal/task_fields.hpp"

namespace holdfast::cli {
namespace {

/// Text that fits a cell of a table.
std::string cell(std::string_view text) {
  constexpr std::size_t columns = 40;
  return shortened(printable(text), columns);
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
  print_fields(fields_of(task, worker));
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
