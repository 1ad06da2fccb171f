#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "command.hpp"
#include "command_output.hpp"
#include "context.hpp"
#include "duration.hpp"
#include "exit_codes.hpp"
#include "json_text.hpp"
#include "lease_times.hpp"
#include "locked_command.hpp"
#include "new_task.hpp"
#include "output.hpp"
#include "patient.hpp"
#include "progress_writer.hpp"
#include "stop_after.hpp"
#include "task_access.hpp"
#include "usage_error.hpp"
#include "waiting.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct TaskRunOptions {
  TaskOwner owner;
  NewTaskOptions new_task;
  std::optional<std::string> id;
  Patience patience;
  LeaseOptions lease{.ttl_name = "--lease", .ttl = "30", .grace = {}, .max_hold = {}};
  int conflict_exit_code = exit_not_acquired;
};

/// How long the end of a task is tried to be written to a store that does not answer. Nobody else can claim
/// the task meanwhile: its lock is renewed, or if it cannot be, the write is refused by the fence.
constexpr std::chrono::seconds patience_at_the_end{30};

class TaskRun {
 public:
  TaskRun(const Context& context, const TaskRunOptions& options)
      : context_(context),
        options_(options),
        owner_(options.owner.name),
        wait_(options.patience.length()),
        times_(options.lease.check()) {
    if (context.command.empty()) {
      throw UsageError("task run: no command given; write: holdfast task run -- COMMAND [ARGUMENT...]");
    }
    if (options.id && options.new_task.given()) {
      throw UsageError(
          "task run: --id takes a task that is there; --ttl, --method and --request-key are for "
          "a new one");
    }
    request_ = options.new_task.request();
  }

  int operator()() {
    std::optional<ProgressWriter> variables;  // outlives the thread that gives it lines
    CommandOutput output;
    LockedCommand command(context_.command, times_, output.redirections());
    InterruptibleWait waiting(command.signals(), options_.patience.saying());
    auto opened = open_tasks(context_);
    waiting.begin_attempts();
    if (const auto signal = name_task(opened, waiting)) return exit_signal_base + *signal;
    // One that was there before is ours only when it is claimed; there may be none.
    if (!options_.id) tell_id();
    warn_of_private_locks(opened.holdfast);
    const auto subject = Subject::task(id_, Tasks::lock_key(owner_, id_));
    EndingReport report(context_.json, subject, times_);
    Claim claim;
    if (const auto code = take(opened, waiting, subject, report, claim)) return *code;
    if (options_.id) tell_id();
    claimed_ = claim.task();
    auto ours = opened.tasks.with_incarnation(claimed_.incarnation);
    if (const auto signal = command.told_to_end()) return called_off_before_start(ours, claim, *signal);

    variables.emplace([this, tasks = ours.with_fence(claim.fence())](
                          const std::string& changes) mutable { return write_variables(tasks, changes); },
                      [](const std::string& what) { complain("warning: " + what); });
    output.start([&variables](std::string_view line) { variables->line(line); });
    const auto ending = command.run(claim.guard(), opened.holdfast.url(), report,
                                    {"HOLDFAST_TASK_ID=" + id_, "HOLDFAST_TASK_OWNER=" + owner_,
                                     "HOLDFAST_TASK_INCARNATION=" + claimed_.incarnation},
                                    claim.stopped());
    const auto held = command.held();
    output.finish_reading();
    variables->finish();
    const int code = finish(ours, claim, report, ending, held, output);
    if (ending.kind == Ending::Kind::lost) {
      claim = {};  // releases, and does not wait for long
    } else if (claim.guard()) {
      let_go(claim);  // unless the task's end did
    }
    // After everything else: who reads our output may take its time, and a signal need not wait for that.
    if (output.has_rest()) {
      command.signals().obey_from_now_on();
      output.pass_on_rest();
    }
    return code;
  }

 private:
  /// Creates the task, unless it is there already. A signal that ended that.
  std::optional<int> name_task(OpenedTasks& opened, InterruptibleWait& waiting) {
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
        complain("warning: the store did not answer whether it created the task; see holdfast task list");
      }
      return signal;
    }
    return std::nullopt;
  }

  /// Before anything of the command: whoever started us may want to look at the task, or to cancel it.
  void tell_id() const {
    if (context_.json) {
      tell_json({{"taskId", id_}});
    } else {
      complain("task " + printable(id_));
    }
  }

  /// An exit code, or nothing and a claim.
  std::optional<int> take(OpenedTasks& opened, InterruptibleWait& waiting, const Subject& subject,
                          const EndingReport& report, Claim& claim) {
    LockOptions how{.ttl = times_.ttl,
                    .retries = no_retry_limit,
                    .max_hold = times_.max_hold,
                    .dispose_timeout = last_release_timeout};
    auto taken = take_with_patience(opened.holdfast.locks(), subject, wait_, waiting,
                                    [&](milliseconds wait, const std::stop_token& stop) {
                                      how.wait = wait;
                                      return claim_it(opened, how, stop);
                                    });
    if (taken.signal) {
      // One under a request key may be another process's work.
      if (!options_.id && request_.request_key.empty()) cancel_new_task(opened.tasks);
      return exit_signal_base + *taken.signal;
    }
    if (taken.refusal) {
      report.tell(to_string(ErrorCode::AcquisitionTimeout), *taken.refusal);
      return options_.conflict_exit_code;
    }
    claim = *std::move(taken.got);
    return std::nullopt;
  }

  Claim claim_it(OpenedTasks& opened, const LockOptions& how, const std::stop_token& stop) const {
    try {
      return opened.tasks.claim(owner_, id_, how, stop);
    } catch (const Error& error) {
      // Whoever typed a command, and no id, may not expect that there was such a task.
      if (error.code() != ErrorCode::InvalidTransition || options_.id) throw;
      throw Error(error.code(), error.message() +
                                    ". The command was not run: it was, under this --request-key, "
                                    "before; to run it again, remove that task first (holdfast task rm)");
    }
  }

  /// Whoever asked us to end does not want the command to begin. A task that was made for it would wait for
  /// nobody; one that was there before is left to the next.
  int called_off_before_start(Tasks& ours, Claim& claim, int signal) const {
    if (!options_.id) cancel_new_task(ours);
    let_go(claim);
    return exit_signal_base + signal;
  }

  void cancel_new_task(Tasks& tasks) const {
    try {
      const StopAfter limit(last_release_timeout);
      tasks.cancel(owner_, id_, "ended by a signal before the command began", limit.token());
    } catch (const Error& error) {
      complain("warning: the task " + quote(id_) + " was not cancelled (" + printable(error.what()) +
               "). It ends with its ttl");
    }
  }

  /// Now, and not at our end, for which a reader of our output may let us wait.
  static void let_go(Claim& claim) {
    try {
      claim.release();
    } catch (const Error& error) {
      complain("warning: releasing the lock of the task was not confirmed (" + printable(error.what()) +
               "). Unless it was released, it ends with its lease");
    }
  }

  ProgressWriter::Outcome write_variables(Tasks& tasks, const std::string& changes) {
    using Outcome = ProgressWriter::Outcome;
    try {
      tasks.set_variables(owner_, id_, Json::parse(changes).value_or_throw());
      return Outcome::done;
    } catch (const Error& error) {
      switch (error.code()) {
        case ErrorCode::NotFound:
        case ErrorCode::InvalidTransition:
        case ErrorCode::StaleFence:
        case ErrorCode::WrongLock:
          return Outcome::no_more;  // the command is about to be ended, and that is told
        default:
          break;
      }
      if (!complained_) {
        complain("warning: not all variables of the task " + quote(id_) +
                 " are written: " + printable(error.message()));
      }
      complained_ = true;
      return error.transient() ? Outcome::again : Outcome::dropped;
    }
  }

  /// `ours`: the store, and in it this task alone, whatever gets its id.
  int finish(Tasks& ours, Claim& claim, EndingReport& report, const Ending& ending, nanoseconds held,
             const CommandOutput& output) {
    const auto reason = claim.guard().loss_reason();
    // A task that is gone has no next worker, so what became of its lock does not matter.
    const bool called_off = claim.gone() || (!reason && claim.stopped().stop_requested());
    if (ending.survivors.any()) leave_survivors(ours, claim, report, ending, reason, held, called_off);
    switch (ending.kind) {
      case Ending::Kind::exec_failed: {
        const int code = report.exec_failed(context_.command.front(), ending.value);
        const auto unrecorded =
            record(ours, claim, report, result_of(code, 0, output), "the command cannot be run");
        return unrecorded.value_or(code);
      }
      case Ending::Kind::keeper_died:
        report.say_loss(ending, reason, held);
        // Nobody knows what the command has done: the task is left to whoever claims it next.
        return exit_internal;
      case Ending::Kind::lost:
        if (called_off) {
          say_called_off(ours, claim, report, "the command was ended");
          return exit_called_off;
        }
        report.say_loss(ending, reason, held);
        return exit_lost;
      case Ending::Kind::exited:
        break;
    }
    const int code = exit_code_of_status(ending.value);
    const int signal = WIFSIGNALED(ending.value) ? WTERMSIG(ending.value) : 0;
    std::optional<std::string> trouble;
    if (code != 0) {
      trouble = signal != 0 ? "the command died of signal " + std::to_string(signal)
                            : "the command exited with " + std::to_string(code);
    }
    return record(ours, claim, report, result_of(code, signal, output), trouble).value_or(code);
  }

  [[noreturn]] void leave_survivors(Tasks& ours, const Claim& claim, EndingReport& report,
                                    const Ending& ending, std::optional<LossReason> reason, nanoseconds held,
                                    bool called_off) {
    report.say_survivors(ending.survivors);
    if (called_off) {
      say_called_off(ours, claim, report, "the command could not be ended");
      leave_lock_to_expire(exit_called_off);
    }
    report.say_loss(ending, reason, held);
    leave_lock_to_expire(ending.kind == Ending::Kind::keeper_died ? exit_internal : exit_lost);
  }

  static Json result_of(int code, int signal, const CommandOutput& output) {
    using nlohmann::ordered_json;
    ordered_json result{{"exitCode", code}, {"signal", signal}};
    result[signal != 0 ? "exitCode" : "signal"] = nullptr;
    result["stdout"] = output.out_tail();
    result["stderr"] = output.err_tail();
    return Json::parse(result.dump(-1, ' ', false, ordered_json::error_handler_t::replace)).value_or_throw();
  }

  /// Ends the task with this result, as failed if there is trouble. Nothing if that is done, else the exit
  /// code: then the trouble was told. An hour's work is not thrown away because the store does not answer for
  /// a moment.
  std::optional<int> record(Tasks& ours, Claim& claim, const EndingReport& report, const Json& result,
                            const std::optional<std::string>& trouble) {
    const auto give_up_at = std::chrono::steady_clock::now() + patience_at_the_end;
    bool uncertain = false;
    while (true) {
      try {
        trouble ? claim.fail_with_result(result, *trouble) : claim.complete(result);
        return std::nullopt;
      } catch (const Error& error) {
        switch (error.code()) {
          case ErrorCode::NotFound:
          case ErrorCode::InvalidTransition:
            // A write whose answer was lost may have ended it.
            if (uncertain && has_result(ours, result)) return std::nullopt;
            say_called_off(ours, claim, report,
                           "the command had ended by itself, and its result is not recorded");
            return exit_called_off;
          case ErrorCode::StaleFence:
          case ErrorCode::WrongLock:
            report.tell(to_string(error.code()),
                        "the end of the command is not recorded: " +
                            (context_.json ? error.message() : printable(error.message())));
            return exit_lost;
          default:
            break;
        }
        if (!error.transient() || std::chrono::steady_clock::now() >= give_up_at) {
          report.tell(to_string(error.code()),
                      "the command has ended, but the task " + quote(id_) +
                          " could not be told and looks unfinished: " + printable(error.what()));
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
      return on_one_line(task.result.str()) == on_one_line(result.str());
    } catch (const Error&) {
      return false;
    }
  }

  void say_called_off(Tasks& ours, const Claim& claim, const EndingReport& report,
                      const std::string& and_the_command) const {
    report.tell("TaskEnded", "the task " + quote(id_) + " " +
                                 (claim.gone() ? how_it_went(ours) : how_it_ended(ours)) + "; " +
                                 and_the_command);
  }

  std::string how_it_ended(Tasks& ours) const {
    try {
      const auto task = ours.get(owner_, id_);
      return task.status == TaskStatus::cancelled
                 ? "was cancelled" + (task.status_message ? " (" + printable(*task.status_message) + ")" : "")
                 : "was set to " + std::string(to_string(task.status)) + " by somebody else";
    } catch (const Error& error) {
      return error.code() == ErrorCode::NotFound ? how_it_went(ours) : "was ended by somebody else";
    }
  }

  std::string how_it_went(const Tasks& ours) const {
    constexpr milliseconds uncertain(1000);  // a clock that is the server's is known to us only so well
    const auto& expires = claimed_.expires_at_ms;
    if (!expires || *expires > ours.storage().now_ms() + uncertain.count()) return "was removed";
    return "has expired: its ttl of " + describe(milliseconds(*expires - claimed_.created_at_ms)) +
           " is over, which counts from its creation (--ttl, at most 24h)";
  }

  const Context& context_;
  const TaskRunOptions& options_;
  std::string owner_;
  milliseconds wait_;
  LeaseTimes times_;
  NewTask request_;
  std::string id_;
  Task claimed_;  ///< as it was then
  bool complained_ = false;
};

}  // namespace

void add_task_run(Command task, Context& context) {
  auto command = task.add_command("run", "Run a command as a task");
  auto options = std::make_shared<TaskRunOptions>();
  options->owner.add_to(command);
  options->new_task.add_to(command);
  command.add_option("--id", options->id, "Work on this task instead of a new one")
      .value_name("ID")
      .not_empty();
  options->patience.add_to(command);
  command
      .add_option("-E,--conflict-exit-code", options->conflict_exit_code,
                  "Exit with this if somebody else works on the task (default 75)")
      .value_name("N")
      .between(0, 255);
  command
      .add_option("--lease", options->lease.ttl,
                  "How long the task stays ours if we die; renewed while the command runs (default 30)")
      .value_name("DURATION");
  command
      .add_option(
          "--grace", options->lease.grace,
          "If the task is cancelled or its lock lost: from TERM to KILL. At most a third of the lease\n"
          "(default: a sixth, at most 5)")
      .value_name("DURATION");
  command.usage("Usage: holdfast task run [OPTIONS] -- COMMAND [ARGUMENT...]\n");
  command.footer(
      "Creates a task (or takes one with --id), holds the lock that belongs to it while the command runs,\n"
      "and completes it if the command exits with 0, else fails it. A line on stderr tells its id.\n"
      "The result is {\"exitCode\":N,\"signal\":null,\"stdout\":TAIL,\"stderr\":TAIL}: the last 4 KiB of "
      "each.\n"
      "\n"
      "Lines NAME=JSON that the command writes to its descriptor 3 become variables. In its environment are\n"
      "HOLDFAST_TASK_ID, HOLDFAST_TASK_OWNER and HOLDFAST_TASK_INCARNATION, and what `holdfast run` gives: "
      "so\n"
      "`holdfast task set` works there too, under the fence.\n"
      "\n"
      "If the task is cancelled, by anyone anywhere, the command gets TERM, and KILL after the grace. So it\n"
      "does when the task's ttl is over, which counts from its creation: give work that may take longer "
      "than\n"
      "an hour a --ttl. What may take longer than 24 hours is for `holdfast run`.\n"
      "\n"
      "A --request-key runs a request once: if the task under that key has ended, nothing is run (65) until\n"
      "it is gone, by its ttl or by `task rm`. The command's output goes through pipes, not to the "
      "terminal.\n"
      "\n"
      "Exit: the command's own code; 128+N if it died of signal N; 126 or 127 if it cannot be run; 80 the\n"
      "task was cancelled, ended or removed by somebody else, or expired; 79 lock lost; 75 (or -E) somebody\n"
      "else works on it; 65 the task has ended already; 1 there is no such task; 64 usage; 69 backend\n"
      "unavailable.\n"
      "\n"
      "Examples:\n"
      "  holdfast task run --method backup --ttl 8h -- ./backup.sh\n"
      "  holdfast task run -- sh -c 'for i in 25 50 75; do echo progress=$i >&3; sleep 1; done'\n"
      "  holdfast task run -n --id \"$id\" -- ./worker        unless somebody works on it");
  command.action([&context, options] {
    TaskRun run(context, *options);
    if (!options->id) return run();
    return with_task({.owner = options->owner, .id = *options->id}, [&run] { return run(); });
  });
}

}  // namespace holdfast::cli
