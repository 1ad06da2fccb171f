#include <algorithm>
#include <future>
#include <holdfast/open.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "arguments/context.hpp"
#include "arguments/task_filter.hpp"
#include "arguments/values.hpp"
#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"
#include "terminal/task_fields.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

struct QueueCommand {
  std::string queue;
  std::string id;
  std::optional<std::string> message;
  std::optional<std::string> status;
  TaskFilter filter;
  std::string timeout = "0";
  int limit = 50;
  bool all = false;
  bool create = false;
  int max_working = 0;

  void add_queue_to(Command command) {
    command.add_option("QUEUE", queue, "Name of the queue").required().not_empty();
  }
  void add_id_to(Command command) {
    command.add_option("ID", id, "Task id, as printed by `task add`").required().not_empty();
  }
  void add_create_to(Command command) {
    command.add_flag("--create", create, "Also if there is no such queue yet");
  }
};

constexpr int most_listed = 1000;
constexpr int most_working = 1'000'000;

std::string age(const std::optional<WallTime>& since) {
  return since ? describe(time_since(*since)) : "-";
}

std::vector<std::string> row_of(const std::string& name, const QueueCounts& counts) {
  return {printable(name),
          counts.paused ? "paused" : "active",
          std::to_string(counts.ready),
          std::to_string(counts.delayed),
          std::to_string(counts.parked),
          std::to_string(counts.leased) + (counts.max_leased ? "/" + std::to_string(*counts.max_leased) : ""),
          std::to_string(counts.dead),
          std::to_string(counts.records),
          age(counts.oldest_ready)};
}

std::vector<std::string> columns() {
  return {"QUEUE", "STATE", "READY", "DELAYED", "PARKED", "WORKING", "DEAD", "TASKS", "OLDEST READY"};
}

void print_counts(const Context& context, const std::string& name, const QueueCounts& counts) {
  if (context.json) {
    nlohmann::ordered_json object{{"queue", name}};
    object.update(rpc::to_json(counts));
    print_json(object);
  } else {
    print_table({columns(), row_of(name, counts)});
  }
}

/// The answers to so many operations, in their order. `start(i, done)` starts one; they run together, because
/// each may be a round trip.
template <class Answer, class Start>
std::vector<Result<Answer>> ask_together(std::size_t count, Start start) {
  std::vector<std::future<Result<Answer>>> pending;
  for (std::size_t i = 0; i < count; ++i) {
    std::promise<Result<Answer>> answer;
    pending.push_back(answer.get_future());
    start(i, [answer = std::move(answer)](Result<Answer> result) mutable {
      answer.set_value(std::move(result));
    });
  }
  std::vector<Result<Answer>> answers;
  answers.reserve(count);
  for (auto& one : pending) answers.push_back(one.get());
  return answers;
}

/// Whether anything of the queue is stored. One whose tasks are all gone may still be listed.
bool exists(const QueueCounts& counts) {
  return counts.records > 0 || counts.paused || counts.max_leased;
}

/// How many letters have to be inserted, removed or replaced.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto diagonal = std::exchange(row[0], i + 1);
    for (std::size_t k = 0; k < to.size(); ++k) {
      const auto replaced = diagonal + (from[i] == to[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({replaced, diagonal + 1, row[k] + 1});
    }
  }
  return row.back();
}

/// The queue of the store whose name is most like this one; empty if none is like it.
std::string similar_queue(const Holdfast& holdfast, const std::string& name) {
  std::string nearest;
  auto distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  try {
    std::string cursor;
    do {
      auto page = holdfast.queues(cursor, most_listed);
      for (auto& other : page.queues) {
        if (other == name) continue;
        if (const auto found = edit_distance(name, other); found < distance) {
          distance = found;
          nearest = std::move(other);
        }
      }
      cursor = page.cursor;
    } while (!cursor.empty());
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a user may be allowed to count, and not to list
  }
  return nearest;
}

/// Throws NotFound for a mistyped name. A library or rpc client may set up a queue before its first task, and
/// so may `--create`.
void refuse_missing(const Holdfast& holdfast, const std::string& name, const QueueCounts& counts,
                    std::string_view advice = {}) {
  if (exists(counts)) return;
  const auto similar = similar_queue(holdfast, name);
  throw Error(ErrorCode::NotFound, "there is no queue " + quote(name) +
                                       ": it has no tasks, and is neither paused nor limited. " +
                                       (similar.empty() ? "" : "Did you mean " + quote(similar) + "? ") +
                                       "holdfast queue list shows all queues" + std::string(advice));
}

int list_queues(const Context& context) {
  const auto holdfast = open_store(context);
  std::vector<std::vector<std::string>> rows{columns()};
  std::string cursor;
  do {
    const auto page = holdfast.queues(cursor, most_listed);
    auto counted = ask_together<QueueCounts>(page.queues.size(), [&](std::size_t i, auto done) {
      holdfast.queue(page.queues[i]).start(operation::CountTasks{}, {}, std::move(done));
    });
    for (std::size_t i = 0; i < counted.size(); ++i) {
      const auto& name = page.queues[i];
      const auto counts = std::move(counted[i]).value_or_throw();
      if (!exists(counts)) continue;
      if (context.json) {
        print_counts(context, name, counts);
      } else {
        rows.push_back(row_of(name, counts));
      }
    }
    cursor = page.cursor;
  } while (!cursor.empty());
  if (context.json) return exit_ok;
  if (rows.size() == 1) {
    complain("there are no queues; holdfast task add QUEUE makes one");
    return exit_ok;
  }
  std::sort(rows.begin() + 1, rows.end());
  print_table(rows);
  return exit_ok;
}

std::vector<std::string> listed_columns() {
  return {"ID", "STATUS", "PLACE", "ATTEMPTS", "PRIORITY", "AGE", "WORKER", "METHOD"};
}

std::vector<std::string> task_cells(const Task& task) {
  const auto& state = task.queue;
  const bool works = state && state->place == QueuePlace::leased;
  return {
      printable(task.id),
      std::string(to_string(task.status)),
      state ? std::string(rpc::to_string(state->place)) : "-",
      state ? std::to_string(state->attempts) + "/" + std::to_string(state->terms.max_attempts) : "-",
      state ? std::to_string(state->terms.priority) : "-",
      describe(time_since(task.created_at)),
      works ? shortened(printable(state->worker), 40) + ", " + describe(time_since(state->claimed_at)) : "-",
      task.request_method.empty() ? "-" : shortened(printable(task.request_method), 40)};
}

/// MESSAGE says why a task failed; without any there is no such column.
void print_tasks(const std::vector<Task>& tasks) {
  const bool with_messages =
      std::ranges::any_of(tasks, [](const Task& task) { return task.status_message.has_value(); });
  std::vector<std::vector<std::string>> rows{listed_columns()};
  if (with_messages) rows.front().emplace_back("MESSAGE");
  for (const auto& task : tasks) {
    rows.push_back(task_cells(task));
    if (with_messages) rows.back().push_back(shortened(printable(task.status_message.value_or("-")), 60));
  }
  print_table(rows);
}

int show(const Context& context, const QueueCommand& options) {
  auto wanted = options.filter.selection();  // refuses a wrong filter before anything is printed
  const auto holdfast = open_store(context);
  const auto queue = holdfast.queue(options.queue);
  const auto counts = queue.counts();
  refuse_missing(holdfast, options.queue, counts);
  print_counts(context, options.queue, counts);
  if (counts.records == 0 && !context.json) complain("the queue " + quote(options.queue) + " has no tasks");
  wanted.limit = static_cast<std::size_t>(options.limit);
  const auto page = queue.list(wanted);
  if (context.json) {
    for (const auto& task : page.tasks) print_json_text(rpc::to_json(task));
  } else if (!page.tasks.empty()) {
    print_text("");
    print_tasks(page.tasks);
  }
  for (const auto& error : page.unreadable) complain(context.json, to_string(error.code()), error.message());
  if (!page.cursor.empty() && !context.json) complain("--limit reached; there are more tasks");
  return page.unreadable.empty() ? exit_ok : exit_internal;
}

void print_task(const Context& context, const Task& task) {
  context.json ? print_json_text(rpc::to_json(task)) : print_fields(fields_of(task));
}

int wait_for(const Context& context, const QueueCommand& options) {
  const auto length = parse_duration("--timeout", options.timeout);
  const auto holdfast = open_store(context);
  const auto queue = holdfast.queue(options.queue);
  const auto task = queue.wait(options.id, length > milliseconds(0) ? length : no_time_limit);
  if (!task) {
    complain(context.json, "NotReady", "the task " + quote(options.id) + " has not ended");
    return exit_no_task;
  }
  print_task(context, *task);
  return task->status == TaskStatus::completed ? exit_ok : exit_task_ended;
}

void print_retry(const Context& context, const Task& task) {
  context.json ? print_json_text(rpc::to_json(task)) : print_text(task.id);
}

/// The failed tasks of a queue, those that failed first before the others.
struct FailedTasks {
  std::vector<std::string> ids;
  std::vector<Error> unreadable;
};
FailedTasks failed_tasks(const Queue& queue) {
  FailedTasks failed;
  std::string cursor;
  do {
    auto page = queue.list({.cursor = cursor, .status = TaskStatus::failed, .limit = most_listed});
    for (auto& task : page.tasks) failed.ids.push_back(std::move(task.id));
    std::ranges::move(page.unreadable, std::back_inserter(failed.unreadable));
    cursor = page.cursor;
  } while (!cursor.empty());
  std::ranges::reverse(failed.ids);
  return failed;
}

/// Prints the retries in the order of the failed tasks. What is wrong with one task does not keep others from
/// theirs; what is wrong with the store or the queue ends the command.
int retry_all(const Context& context, const QueueCommand& options) {
  const auto holdfast = open_store(context);
  const auto queue = holdfast.queue(options.queue);
  // All before the first retry: a retry that fails at once would be retried too, for ever.
  const auto failed = failed_tasks(queue);
  for (const auto& error : failed.unreadable)
    complain(context.json, to_string(error.code()), error.message());
  std::size_t retried = 0, refused = failed.unreadable.size();
  const auto report = [&] {
    if (!context.json) {
      complain(std::to_string(retried) + " of " + std::to_string(failed.ids.size()) +
               " failed tasks have a retry");
    }
  };
  // An engine that blocks runs the operations of a batch in any order.
  const std::size_t at_once = holdfast.locks().capabilities().blocks ? 1 : 100;
  for (std::span<const std::string> left(failed.ids); !left.empty();) {
    const auto batch = left.first(std::min(at_once, left.size()));
    left = left.subspan(batch.size());
    const auto retries = ask_together<Task>(batch.size(), [&](std::size_t i, auto done) {
      queue.start(operation::RetryTask{batch[i]}, {}, std::move(done));
    });
    std::optional<Error> ends;
    for (std::size_t i = 0; i < retries.size(); ++i) {
      const auto& retry = retries[i];
      if (retry) {
        print_retry(context, *retry);
        ++retried;
      } else if (retry.error().transient() || retry.error().code() == ErrorCode::QuotaExceeded) {
        if (!ends) ends = retry.error();
      } else if (retry.error().code() != ErrorCode::NotFound) {  // it was removed meanwhile
        complain(context.json, to_string(retry.error().code()),
                 "the task " + quote(batch[i]) + " is not retried: " + printable(retry.error().message()));
        ++refused;
      }
    }
    if (ends) {
      report();
      throw *ends;
    }
  }
  report();
  return refused == 0 ? exit_ok : exit_internal;
}

/// Finished tasks, or all. Tasks that are worked on stay, unless all are meant.
int purge(const Context& context, const QueueCommand& options) {
  std::optional<TaskStatus> only;
  if (options.status) only = parse_status_argument(*options.status);
  if (only && !is_final(*only) && !options.all) {
    throw UsageError("--status: " + quote(*options.status) +
                     " is not finished; add --all to remove such tasks");
  }
  const auto holdfast = open_store(context);
  const auto queue = holdfast.queue(options.queue);
  std::size_t removed = 0, unreadable = 0;
  std::string cursor;
  do {
    const auto page = queue.list({.cursor = cursor, .status = only, .limit = most_listed});
    for (const auto& error : page.unreadable) {
      // Whether it is finished is unknown.
      const bool is_meant = options.all && !only;
      if (is_meant && queue.remove(error.key())) ++removed;
      if (!is_meant) ++unreadable;
      complain(context.json, to_string(error.code()), error.message() + (is_meant ? ". It was removed" : ""));
    }
    for (const auto& task : page.tasks) {
      if (!options.all && !is_final(task.status)) continue;
      // Another task may have come under the same request key since.
      if (queue.run(operation::RemoveTask{{}, task.id, task.incarnation})) ++removed;
    }
    cursor = page.cursor;
  } while (!cursor.empty());
  print_json_or_complain(
      context.json, {{"removed", removed}},
      "removed " + std::to_string(removed) + (removed == 1 ? " task" : " tasks") + " of the queue " +
          quote(options.queue) +
          (unreadable == 0 ? ""
                           : "; not removed, because they cannot be read: " + std::to_string(unreadable)));
  return unreadable == 0 ? exit_ok : exit_internal;
}

int remove(const Context& context, const QueueCommand& options) {
  const auto holdfast = open_store(context);
  const bool removed = holdfast.queue(options.queue).remove(options.id);
  if (!removed) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "not-found"}},
                           "there is no task " + quote(options.id) + " in the queue " + quote(options.queue));
    return exit_no_task;
  }
  if (context.json) print_json({{"ok", true}});
  return exit_ok;
}

constexpr std::string_view create_advice = ". To set it up before its first task, add --create";

/// A setting of a queue. A mistyped name must not look as if the queue that was meant had it.
template <class SetUp>
int set_up(const Context& context, const QueueCommand& options, std::string_view advice, SetUp set) {
  const auto holdfast = open_store(context);
  const auto queue = holdfast.queue(options.queue);
  if (!options.create) refuse_missing(holdfast, options.queue, queue.counts(), advice);
  print_counts(context, options.queue, set(queue));
  return exit_ok;
}

}  // namespace

void fill_queue(Command queue, Context& context) {
  queue.require_subcommand();
  queue.footer(
      "A queue holds tasks for a pool of workers: `holdfast task add QUEUE` adds one, `holdfast task work\n"
      "QUEUE -- COMMAND` works on them. Each task is started at least once, and of all its workers the "
      "outcome\n"
      "of at most one is accepted.\n"
      "\n"
      "Examples:\n"
      "  holdfast queue list\n"
      "  holdfast queue show render --status failed\n"
      "  holdfast queue pause render                     workers finish what they have, and claim no more\n"
      "  holdfast queue retry render \"$id\"               do the work of a failed task again\n"
      "  holdfast queue wait render \"$id\" --timeout 5m\n"
      "  holdfast queue purge render --status completed");
  queue.add_command("list", "List the queues of the store").action([&context] {
    return list_queues(context);
  });

  auto show_command = queue.add_command("show", "Count and list the tasks of a queue");
  auto shown = std::make_shared<QueueCommand>();
  shown->add_queue_to(show_command);
  shown->filter.add_to(show_command);
  show_command.add_option("--limit N", shown->limit, "Maximum number of tasks (default 50)")
      .between(1, most_listed);
  show_command.footer(
      "PLACE: delayed, ready, parked (as many tasks with its --limit-key are worked on as may be), leased (a "
      "worker\n"
      "has it), exhausted (about to be failed), finished, or dead (failed). Failed tasks are listed by when "
      "they\n"
      "failed. With --json: first the counts, then one object for each task.\n"
      "Exit: 0 shown; 1 no such queue.");
  show_command.action([&context, shown] { return show(context, *shown); });

  auto get_command = queue.add_command("get", "Show one task");
  auto got = std::make_shared<QueueCommand>();
  got->add_queue_to(get_command);
  got->add_id_to(get_command);
  get_command.action([&context, got] {
    const auto holdfast = open_store(context);
    print_task(context, holdfast.queue(got->queue).get(got->id));
    return static_cast<int>(exit_ok);
  });
  auto pause_command = queue.add_command("pause", "Stop claims; running commands finish");
  auto paused = std::make_shared<QueueCommand>();
  paused->add_queue_to(pause_command);
  paused->add_create_to(pause_command);
  pause_command.footer("Exit: 0 paused; 1 no such queue.");
  pause_command.action([&context, paused] {
    return set_up(context, *paused, create_advice, [](const Queue& of) { return of.pause(); });
  });
  auto resume_command = queue.add_command("resume", "Allow claims again");
  auto resumed = std::make_shared<QueueCommand>();
  resumed->add_queue_to(resume_command);
  resume_command.footer("Exit: 0 resumed, or not paused; 1 no such queue.");
  resume_command.action([&context, resumed] {
    return set_up(context, *resumed, {}, [](const Queue& of) { return of.resume(); });
  });
  auto retry_command = queue.add_command("retry", "Add a new task that does the work of a failed one again");
  auto retried = std::make_shared<QueueCommand>();
  retried->add_queue_to(retry_command);
  retry_command.add_option("ID", retried->id, "Task id, as printed by `task add`").not_empty();
  retry_command.add_flag("--all", retried->all, "All failed tasks of the queue, in place of ID");
  retry_command.footer(
      "Prints the id of the new task. The failed task stays as it is, until its retention ends. As long as\n"
      "the new task is there, in whatever status, a second retry adds none, and prints its id again. So "
      "--all\n"
      "may be repeated, but not after `queue purge`, which removes retries that have ended.\n"
      "\n"
      "Examples:\n"
      "  holdfast queue retry render \"$id\"\n"
      "  holdfast queue retry render --all");
  retry_command.action([&context, retried] {
    if (retried->all == !retried->id.empty())
      throw UsageError("holdfast queue retry QUEUE takes a task ID, or --all");
    if (retried->all) return retry_all(context, *retried);
    const auto holdfast = open_store(context);
    print_retry(context, holdfast.queue(retried->queue).retry(retried->id));
    return static_cast<int>(exit_ok);
  });

  auto limit_command = queue.add_command("limit", "Set how many tasks may be worked on at once");
  auto limited = std::make_shared<QueueCommand>();
  limited->add_queue_to(limit_command);
  limit_command.add_option("N", limited->max_working, "By all workers together; 0: any number")
      .required()
      .between(0, most_working);
  limited->add_create_to(limit_command);
  limit_command.footer("Exit: 0 set; 1 no such queue.");
  limit_command.action([&context, limited] {
    return set_up(context, *limited, create_advice, [limited](const Queue& of) {
      return of.limit(static_cast<std::size_t>(limited->max_working));
    });
  });

  auto cancel_command = queue.add_command("cancel", "Cancel a task; its command is stopped");
  auto cancelled = std::make_shared<QueueCommand>();
  cancelled->add_queue_to(cancel_command);
  cancelled->add_id_to(cancel_command);
  cancel_command.add_option("--message TEXT", cancelled->message, "Status message for people");
  cancel_command.action([&context, cancelled] {
    const auto holdfast = open_store(context);
    const auto task = holdfast.queue(cancelled->queue).cancel(cancelled->id, cancelled->message);
    if (context.json) print_json_text(rpc::to_json(task));
    return static_cast<int>(exit_ok);
  });

  auto remove_command =
      queue.add_command("rm", "Remove a task, whatever its status, also one that cannot be read");
  auto removed = std::make_shared<QueueCommand>();
  removed->add_queue_to(remove_command);
  removed->add_id_to(remove_command);
  remove_command.footer("Its command is stopped. Exit: 0 removed; 1 no such task.");
  remove_command.action([&context, removed] { return remove(context, *removed); });

  auto wait_command = queue.add_command("wait", "Wait until a task has ended, and show it");
  auto waited = std::make_shared<QueueCommand>();
  waited->add_queue_to(wait_command);
  waited->add_id_to(wait_command);
  wait_command.add_option("--timeout DURATION", waited->timeout, "Give up after this time (default: never)");
  wait_command.footer(
      "Exit: 0 the task is completed; 80 it is failed or cancelled; 1 no such task, or it has not ended in "
      "time.");
  wait_command.action([&context, waited] { return wait_for(context, *waited); });

  auto purge_command = queue.add_command("purge", "Remove the finished tasks of a queue");
  auto purged = std::make_shared<QueueCommand>();
  purged->add_queue_to(purge_command);
  purge_command.add_option("--status STATUS", purged->status, "Only tasks with this status");
  purge_command.add_flag("--all", purged->all, "Unfinished tasks too; running commands are stopped");
  purge_command.action([&context, purged] { return purge(context, *purged); });
}

}  // namespace holdfast::cli
