#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "arguments/values.hpp"
#include "lock_wait/lock_wait.hpp"
#include "metrics/run_record.hpp"
#include "rpc/json/text.hpp"
#include "supervision/locked_command.hpp"
#include "supervision/output_keeper.hpp"
#include "task/access.hpp"
#include "task/command_output.hpp"
#include "task/task.hpp"
#include "task/variable_writer.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct TaskRunOptions {
  TaskOwner owner;
  NewTaskOptions new_task;
  std::optional<std::string> id;
  WaitOptions wait;
  LeaseOptions lease{.ttl_name = "--lease"};
  MetricsFile::Options metrics;
  int keep_output = OutputKeeper::usual_bytes;
};

/// How long the result is written again to a store that does not answer. No other worker can spoil that: the
/// lock is renewed, or if it cannot be, the fence refuses the write.
constexpr std::chrono::seconds result_retry_limit{30};

class TaskRun {
 public:
  TaskRun(const Context& context, const TaskRunOptions& options)
      : context_(context),
        options_(options),
        owner_(options.owner.name),
        times_(options.lease.check()),
        record_(options.metrics) {
    if (context.command.empty()) {
      throw UsageError("task run: COMMAND is missing; usage: holdfast task run -- COMMAND [ARGUMENT...]");
    }
    if (options.id && options.new_task.given()) {
      throw UsageError(
          "task run: --id names an existing task; --ttl, --method and --request-key are for a new task");
    }
    request_ = options.new_task.request();
    (void)options.wait.length();  // throws before anything is done
  }

  int operator()() {
    return record_.around([this] { return run(); });
  }

 private:
  int run() {
    std::optional<VariableWriter> variables;  // both outlive the thread that passes them lines and output
    std::optional<OutputKeeper> keeper;
    std::shared_ptr<OutputKeeper::Log> log;
    CommandOutput output;
    LockedCommand command(context_.command, times_, output.redirections());
    InterruptibleWait waiting(command.signals(), options_.wait.announce());
    auto opened = open_tasks(context_, {.retry_for = options_.wait.retry_for(),
                                        .observer = record_.observer(),
                                        .logged = LoggedActivities::incidents});
    waiting.begin_attempts();
    record_.ends_as(RunResult::interrupted);  // by a signal, unless it comes to more
    if (const auto signal = create_task(opened, waiting)) return exit_signal_base + *signal;
    // An existing task is printed only after it is claimed; it may not exist.
    if (!options_.id) print_id();
    warn_of_private_locks(opened.holdfast.locks());
    const auto wording = LockWording::task(id_, Tasks::lock_key(owner_, id_));
    EndReport report(context_.json, wording, times_);
    Claim claim;
    if (const auto code = acquire_claim(opened, waiting, wording, report, claim)) return *code;
    if (options_.id) print_id();
    claimed_ = claim.task();
    auto ours = opened.tasks.with_incarnation(claimed_.incarnation);
    if (const auto signal = command.take_end_signal()) return end_before_start(ours, claim, *signal);

    variables.emplace(VariableWriter::Target{
                          .task = id_,
                          .limits = context_.task_limits.options(opened.holdfast.task_options(), true),
                          .write = [this, tasks = ours.with_fence(claim.token())](
                                       const Json& changes) { tasks.set_variables(owner_, id_, changes); },
                          .read = [this, tasks = ours] { return tasks.get(owner_, id_).variables; }},
                      [](const std::string& what) { complain("warning: " + what); });
    if (options_.keep_output > 0) {
      keeper.emplace(static_cast<std::size_t>(options_.keep_output));
      log = keeper->begin([this, tasks = ours, token = claim.token()](NewOutput part) {
        part.token = token;
        part.incarnation = claimed_.incarnation;
        tasks.append_output(owner_, id_, part);
      });
    }
    output.start([&variables](std::string_view line) { variables->line(line); },
                 [&log](std::size_t stream, std::string_view bytes) {
                   if (log) log->write(stream, bytes);
                 });
    const auto end = command.run(claim.guard(), opened.holdfast.url(), report,
                                 {"HOLDFAST_TASK_ID=" + id_, "HOLDFAST_TASK_OWNER=" + owner_,
                                  "HOLDFAST_TASK_INCARNATION=" + claimed_.incarnation},
                                 claim.stopped());
    const auto held = command.held();
    record_.hold_ends();
    output.finish_reading();
    variables->finish();
    if (log) keeper->end(log);
    const int code = finish(ours, claim, report, end, held, output);
    if (end.kind == CommandEnd::Kind::lost) {
      claim = {};  // releases, within last_release_timeout
    } else if (claim.guard()) {
      release(claim);  // unless ending the task did
    }
    if (end.kind == CommandEnd::Kind::exited) report.released();
    keeper.reset();
    // Before the reader of the output, which may be slow, is waited for.
    record_.write(code);
    // Last, because the reader of the output may be slow, and a signal must not wait for it.
    if (output.has_rest()) {
      command.signals().restore_default_actions();
      output.forward_rest();
    }
    return code;
  }

  /// Creates the task unless --id names one. Returns a signal that interrupted it.
  std::optional<int> create_task(OpenedTasks& opened, InterruptibleWait& waiting) {
    if (options_.id) {
      id_ = *options_.id;
      return std::nullopt;
    }
    try {
      id_ = opened.tasks.create(owner_, request_, waiting.stop()).id;
    } catch (const Error& error) {
      const auto signal = waiting.finish();
      if (!signal) throw;
      if (error.transient()) {
        complain(
            "warning: the store did not confirm the creation of the task; check with: holdfast task list");
      }
      return signal;
    }
    return std::nullopt;
  }

  /// Before any output of the command, so that the caller can follow or cancel the task.
  void print_id() const {
    if (context_.json && !logs_json()) {
      write_json_line({{"taskId", id_}});
    } else {
      complain("task " + printable(id_), {.event = "task", .fields = {{.name = "task_id", .value = id_}}});
    }
  }

  /// Returns an exit code, or nothing and sets `claim`.
  std::optional<int> acquire_claim(OpenedTasks& opened, InterruptibleWait& waiting,
                                   const LockWording& wording, EndReport& report, Claim& claim) {
    auto how = times_.lock_options();
    record_.waits(opened.holdfast.locks().capabilities().backend);
    const auto since = BootClock::now();
    auto acquired = acquire(opened.holdfast.locks(), wording, options_.wait, waiting,
                            [&](milliseconds wait, const std::stop_token& stop) {
                              how.wait = wait;
                              return claim_task(opened, how, stop);
                            });
    if (acquired.signal) {
      acquired.lock.reset();
      if (is_of_this_run()) cancel_new_task(opened.tasks);
      return exit_signal_base + *acquired.signal;
    }
    if (acquired.refusal) {
      record_.not_acquired();
      report.refused(*acquired.refusal, BootClock::now() - since);
      return options_.wait.conflict_exit_code;
    }
    claim = *std::move(acquired.lock);
    record_.acquired(claim.fence());
    report.acquired(claim.guard(), opened.holdfast.locks(), BootClock::now() - since);
    return std::nullopt;
  }

  Claim claim_task(OpenedTasks& opened, const LockOptions& how, const std::stop_token& stop) const {
    try {
      return opened.tasks.claim(owner_, id_, how, stop);
    } catch (const Error& error) {
      // Without --id the user may not expect that there is such a task.
      if (error.code() != ErrorCode::InvalidTransition || options_.id) throw;
      throw Error(error.code(),
                  error.message() +
                      ". The command was not run, because it already ran under this --request-key. To run it "
                      "again, remove that task first: holdfast task rm");
    }
  }

  /// A signal came before the command began. A task that was created for it would never be worked on; an
  /// existing one is left to the next worker.
  int end_before_start(Tasks& ours, Claim& claim, int signal) const {
    if (is_of_this_run()) cancel_new_task(ours);
    release(claim);
    return exit_signal_base + signal;
  }

  /// Whether only this run can have asked for the task. One under a request key may be another process's: its
  /// creation says nothing about who came first.
  [[nodiscard]] bool is_of_this_run() const { return !options_.id && request_.request_key.empty(); }

  void cancel_new_task(Tasks& tasks) const {
    try {
      const StopAfter limit(last_release_timeout);
      tasks.cancel(owner_, id_, "ended by a signal before the command started", limit.token());
    } catch (const Error& error) {
      complain("warning: the task " + quote(id_) + " was not cancelled (" + printable(error.what()) +
               "). It expires with its ttl");
    }
  }

  /// Now, and not in a destructor: forwarding the rest of the output may take long.
  static void release(Claim& claim) {
    try {
      claim.release();
    } catch (const Error& error) {
      complain("warning: the release of the task's lock was not confirmed (" + printable(error.what()) +
               "). If it was not released, its lease will expire");
    }
  }

  /// `ours`: the store, restricted to this incarnation of the task.
  int finish(Tasks& ours, Claim& claim, EndReport& report, const CommandEnd& end, nanoseconds held,
             const CommandOutput& output) {
    const auto reason = claim.guard().loss_reason();
    // A task that is gone has no next worker, so whether its lock was lost does not matter.
    const bool task_ended = claim.gone() || (!reason && claim.stopped().stop_requested());
    record_.ends_as(task_ended ? RunResult::task_ended : RunResult::lost);
    if (end.survivors.any()) leave_survivors(ours, claim, report, end, reason, held, task_ended);
    switch (end.kind) {
      case CommandEnd::Kind::exec_failed: {
        record_.ends_as(RunResult::failed);
        const int code = report.exec_failed(context_.command.front(), end.value);
        const auto unrecorded =
            record(ours, claim, report, result_of(code, 0, output), "the command cannot be run");
        return unrecorded.value_or(code);
      }
      case CommandEnd::Kind::keeper_died:
        report.loss(end, reason, held);
        record_.ends_as(RunResult::error);
        // What the command has done is unknown: the task is left to the next worker.
        return exit_internal;
      case CommandEnd::Kind::lost:
        if (task_ended) {
          report_task_ended(ours, claim, report, "the command was stopped");
          return exit_task_ended;
        }
        report.loss(end, reason, held);
        return exit_lost;
      case CommandEnd::Kind::exited:
        break;
    }
    report.command_ended(end);
    const int code = exit_code_of_status(end.value);
    record_.ends_as(code == 0 ? RunResult::ok : RunResult::failed);
    const int signal = WIFSIGNALED(end.value) ? WTERMSIG(end.value) : 0;
    std::optional<std::string> failure;
    if (code != 0) {
      failure = signal != 0 ? "the command died of signal " + std::to_string(signal)
                            : "the command exited with " + std::to_string(code);
    }
    return record(ours, claim, report, result_of(code, signal, output), failure).value_or(code);
  }

  [[noreturn]] void leave_survivors(Tasks& ours, const Claim& claim, EndReport& report, const CommandEnd& end,
                                    std::optional<LossReason> reason, nanoseconds held, bool task_ended) {
    report.survivors(end.survivors);
    if (task_ended) {
      report_task_ended(ours, claim, report, "the command could not be stopped");
      record_.write(exit_task_ended);
      exit_without_release(exit_task_ended);
    }
    report.loss(end, reason, held);
    record_.write(exit_code_of_loss(end));
    exit_without_release(exit_code_of_loss(end));
  }

  static Json result_of(int code, int signal, const CommandOutput& output) {
    using nlohmann::ordered_json;
    ordered_json result{{"exitCode", code}, {"signal", signal}};
    result[signal != 0 ? "exitCode" : "signal"] = nullptr;
    result["stdout"] = output.out_tail();
    result["stderr"] = output.err_tail();
    return rpc::dump(result);
  }

  /// Marks the task completed, or failed if there is a failure, with this result. Returns nothing, or the
  /// exit code after a reported error. Retries: an hour's work must not be lost because the store does not
  /// answer for a moment.
  std::optional<int> record(Tasks& ours, Claim& claim, const EndReport& report, const Json& result,
                            const std::optional<std::string>& failure) {
    const auto give_up_at = std::chrono::steady_clock::now() + result_retry_limit;
    bool uncertain = false;
    while (true) {
      try {
        failure ? claim.fail_with_result(result, *failure) : claim.complete(result);
        return std::nullopt;
      } catch (const Error& error) {
        switch (error.code()) {
          case ErrorCode::NotFound:
          case ErrorCode::InvalidTransition:
            // An earlier write whose answer was lost may have ended it.
            if (uncertain && has_result(ours, result)) return std::nullopt;
            report_task_ended(ours, claim, report,
                              "the command had already exited, and its result was not recorded");
            record_.ends_as(RunResult::task_ended);
            return exit_task_ended;
          case ErrorCode::StaleFence:
          case ErrorCode::WrongLock:
            report.report(to_string(error.code()),
                          "the result of the command was not recorded: " +
                              (context_.json ? error.message() : printable(error.message())),
                          {.event = "write_refused", .level = LogSeverity::error});
            record_.ends_as(RunResult::lost);
            return exit_lost;
          default:
            break;
        }
        if (!error.transient() || std::chrono::steady_clock::now() >= give_up_at) {
          report.report(to_string(error.code()),
                        "the command exited, but its result could not be recorded and the task " +
                            quote(id_) + " looks unfinished: " + printable(error.what()));
          record_.ends_as(RunResult::error);
          return exit_code_of(error.code());
        }
        uncertain = true;
        std::this_thread::sleep_for(milliseconds(500));
      }
    }
  }

  bool has_result(Tasks& ours, const Json& result) const {
    try {
      const auto task = ours.get(owner_, id_);
      return rpc::on_one_line(task.result.str()) == rpc::on_one_line(result.str());
    } catch (const Error&) {
      return false;
    }
  }

  void report_task_ended(Tasks& ours, const Claim& claim, const EndReport& report,
                         const std::string& and_the_command) const {
    report.report("TaskEnded",
                  "the task " + quote(id_) + " " +
                      (claim.gone() ? how_it_was_removed(ours) : how_it_ended(ours)) + "; " + and_the_command,
                  {.event = "task_ended", .level = LogSeverity::error});
  }

  std::string how_it_ended(Tasks& ours) const {
    try {
      const auto task = ours.get(owner_, id_);
      return task.status == TaskStatus::cancelled
                 ? "was cancelled" + (task.status_message ? " (" + printable(*task.status_message) + ")" : "")
                 : "was set to " + std::string(to_string(task.status)) + " by another client";
    } catch (const Error& error) {
      return error.code() == ErrorCode::NotFound ? how_it_was_removed(ours) : "was ended by another client";
    }
  }

  std::string how_it_was_removed(const Tasks& ours) const {
    constexpr milliseconds uncertain(1000);  // the server's clock is known to about a second
    const auto& expires = claimed_.expires_at;
    if (!expires || *expires > ours.storage().now() + uncertain) return "was removed";
    return "has expired: its ttl of " + describe(*expires - claimed_.created_at) +
           " has passed since its creation (--ttl, at most 24h)";
  }

  const Context& context_;
  const TaskRunOptions& options_;
  std::string owner_;
  LeaseTimes times_;
  RunRecord record_;
  NewTask request_;
  std::string id_;
  Task claimed_;  ///< as it was when it was claimed
};

}  // namespace

void add_task_run(Command task, Context& context) {
  auto command = task.add_command("run", "Run a command as a task");
  auto options = std::make_shared<TaskRunOptions>();
  options->owner.add_to(command);
  options->new_task.add_to(command);
  command.add_option("--id ID", options->id, "Claim this existing task instead of creating one").not_empty();
  options->wait.add_to(command);
  options->wait.add_verbose_to(command);
  options->wait.add_conflict_exit_code_to(command, "Exit code if the task is already claimed (default 75)");
  command.add_option(
      "--lease DURATION", options->lease.ttl,
      "How long the claim stays valid after this process dies; renewed while the command runs\n"
      "(default 30)");
  command.add_option("--grace DURATION", options->lease.grace,
                     "Time from TERM to KILL when the task is cancelled or its lock lost. At most lease/3\n"
                     "(default: lease/6, at most 5)");
  add_keep_output(command, options->keep_output);
  options->metrics.add_to(command, "Write the times and the outcome of this run");
  command.usage("Usage: holdfast task run [OPTIONS] -- COMMAND [ARGUMENT...]\n");
  command.footer(
      "Creates a task (or claims an existing one with --id) and holds the task's lock while the command "
      "runs.\n"
      "The task is then completed if the command exits with 0, else failed. A line on stderr shows the id.\n"
      "The result is {\"exitCode\":N,\"signal\":null,\"stdout\":TAIL,\"stderr\":TAIL}: the last 4 KiB of "
      "each.\n"
      "`holdfast task logs` shows more of it, also while the command runs.\n"
      "\n"
      "Lines NAME=JSON that the command writes to descriptor 3 become variables. Its environment has\n"
      "HOLDFAST_TASK_ID, HOLDFAST_TASK_OWNER and HOLDFAST_TASK_INCARNATION, and the variables of\n"
      "`holdfast run`: `holdfast task set` in the command writes with the fence automatically.\n"
      "\n"
      "If the task is cancelled, from any machine, the command gets TERM, and KILL after --grace. The same\n"
      "happens when the task's ttl expires, which counts from its creation: pass --ttl for work that may "
      "take\n"
      "longer than an hour. Use `holdfast run` for work that may take longer than 24 hours.\n"
      "\n"
      "--request-key runs a request once: if the task under that key has ended, the command is not run\n"
      "(exit 65) until that task expires or is removed (`task rm`). The command's output goes through "
      "pipes,\n"
      "not to the terminal.\n"
      "\n"
      "Exit: the command's own code; 128+N if it died of signal N; 126 or 127 if it cannot be run; 80 the\n"
      "task was cancelled, ended or removed by another client, or expired; 79 lock lost; 75 (or -E) the "
      "task\n"
      "is already claimed; 65 the task has already ended; 1 no such task; 64 usage; 69 store unavailable.\n"
      "\n"
      "Examples:\n"
      "  holdfast task run --method backup --ttl 8h -- ./backup.sh\n"
      "  holdfast task run -- sh -c 'for i in 25 50 75; do echo progress=$i >&3; sleep 1; done'\n"
      "  holdfast task run -n --id \"$id\" -- ./worker        exit 75 if it is already claimed");
  command.action([&context, options] {
    TaskRun run(context, *options);
    if (!options->id) return run();
    return with_task({.owner = options->owner, .id = *options->id}, [&run] { return run(); });
  });
}

}  // namespace holdfast::cli
