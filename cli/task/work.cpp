#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <holdfast/memory.hpp>
#include <holdfast/open.hpp>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "arguments/values.hpp"
#include "lock_wait/lock_wait.hpp"
#include "process/keeper_source.hpp"
#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/protocol/error_text.hpp"
#include "supervision/job_command.hpp"
#include "supervision/output_keeper.hpp"
#include "task/task.hpp"
#include "task/variable_writer.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/log.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

/// What a command asks for by its exit code; those of sysexits.h.
constexpr int exit_fail_for_good = 65;
constexpr int exit_retry_later = 75;
/// How long an outcome is sent again to a store that does not answer: the fence protects the next worker.
constexpr std::chrono::seconds outcome_retry_limit{30};
/// Of a command's output that is not JSON.
constexpr std::size_t max_text_output = std::size_t{64} * 1024;
constexpr int most_commands = 1000;
/// As it starts; fewer while it runs.
constexpr rlim_t descriptors_per_command = 10;
/// Standard descriptors, the store's, and those that wake threads.
constexpr rlim_t descriptors_of_pool = 64;
/// Between the claim and the start of its command, drift included.
constexpr milliseconds limit_tolerance(500);

struct WorkOptions {
  std::vector<std::string> queues;
  int jobs = 1;
  bool once = false;
  bool until_empty = false;
  std::string drain_timeout = "30";
  LeaseOptions lease{.ttl_name = "--lease"};
  int keep_output = OutputKeeper::usual_bytes;
};

/// A pool of commands: one thread for each, which claims a task, runs the command and reports its outcome.
class CommandPool {
 public:
  CommandPool(const Context& context, const WorkOptions& options)
      : context_(context),
        options_(options),
        times_(options.lease.check()),
        drain_timeout_(parse_duration("--drain-timeout", options.drain_timeout)),
        // The process that starts commands is forked while this one has one thread, and before signals are
        // queued.
        plan_{.command = context.command, .times = times_.stop},
        source_(plan_, inherited_),
        signals_({SIGINT, SIGTERM, SIGHUP, SIGQUIT}, inherited_) {
    std::signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit(commands_at_once());
  }

  int operator()() {
    InterruptibleWait opening(signals_, Announce::never);
    const auto holdfast = open_store(context_);
    opening.finish();
    if (holdfast.locks().capabilities().backend == memory_capabilities.backend) {
      throw UsageError(
          "task work: memory: is private to this process, so it never has tasks; use sqlite:PATH");
    }
    auto limits = holdfast.queue_options();
    limits.tasks = context_.task_limits.options(limits.tasks, true);
    const auto queue = holdfast.queue(options_.queues.front(), limits);
    url_ = holdfast.url();
    // A task is not claimable before the processes that stop its command are gone.
    mark_ = queue.process_mark();
    if (mark_ >= 0) source_.keep_open(mark_);
    limits_ = limits.tasks;
    for (const auto& name : options_.queues) queues_.emplace(name, holdfast.queue(name, limits));
    if (options_.keep_output > 0) {
      keeper_.emplace(static_cast<std::size_t>(options_.keep_output));
    }
    std::vector<std::thread> slots;
    const int count = commands_at_once();
    running_ = count;
    slots.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      slots.emplace_back([this, queue] {
        block_all_signals();
        run_slot(queue);
      });
    }
    const bool drained = follow_signals();
    for (auto& slot : slots) slot.join();
    keeper_.reset();
    if (drained && kept_.empty()) {
      complain("drained: all commands have ended; tasks given back: " + std::to_string(given_back_),
               {.event = "drained"});
    }
    if (!kept_.empty()) {
      leave_mark();
      exit_without_release(exit_code_);
    }
    if (exit_code_ != exit_ok) return exit_code_;
    if (options_.until_empty && !drain_.stop_requested()) report_rest(holdfast);
    return options_.once && worked_ == 0 ? exit_no_task : exit_ok;
  }

 private:
  [[nodiscard]] int commands_at_once() const noexcept { return options_.once ? 1 : options_.jobs; }

  /// For this process alone: the one that starts commands was forked before, so they keep the caller's limit.
  /// Throws UsageError if the limit is too low.
  static void raise_descriptor_limit(int commands) {
    const auto needed = static_cast<rlim_t>(commands) * descriptors_per_command + descriptors_of_pool;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= needed) return;
    throw UsageError("-j: " + std::to_string(commands) + " commands at once need " + std::to_string(needed) +
                     " file descriptors; at most " + std::to_string(limit.rlim_max) +
                     " are allowed. Raise the limit (ulimit -n), or run fewer");
  }

  /// Reports what is left in queues from which no task can be claimed now.
  void report_rest(const Holdfast& holdfast) const {
    for (const auto& name : options_.queues) {
      const auto counts = holdfast.queue(name).counts();
      const auto left = counts.ready + counts.delayed + counts.leased + counts.parked;
      if (left == 0) continue;
      auto message = "unfinished tasks in " + quote(name) + ": " + std::to_string(left);
      if (counts.delayed > 0) {
        message += "; " + std::to_string(counts.delayed) + " delayed";
        if (counts.next_due) {
          const auto wait = *counts.next_due - std::chrono::floor<milliseconds>(WallTime::clock::now());
          message += wait > milliseconds(0) ? ", the next due in " + describe(wait) : ", the next due now";
        }
      }
      if (counts.leased > 0) message += "; " + std::to_string(counts.leased) + " claimed by other workers";
      if (counts.paused) message += "; the queue is paused (holdfast queue resume " + shell_word(name) + ")";
      complain(message);
    }
  }

  /// Leaves a process with the store's mark of this one until the leases that were kept have expired.
  void leave_mark() {
    if (mark_ < 0) return;
    auto last = BootClock::now();
    for (const auto& job : kept_) last = std::max(last, BootClock::now() + job.remaining());
    if (::fork() != 0) return;
    // A fork of a process with threads: nothing here allocates or locks.
    const auto mark = static_cast<unsigned>(mark_);
    if (mark > 0) close_range(0, mark - 1, 0);
    close_range(mark + 1, ~0U, 0);
    sleep_until(last + times_.stop.margin);  // the proof ends before the lease does
    _exit(0);
  }

  /// Until all slots have ended. The first signal drains, the second stops. Returns whether there was one.
  bool follow_signals() {
    BootTime stop_at = never;
    while (running_ > 0) {
      const auto left = stop_at == never ? milliseconds(-1)
                                         : std::clamp<milliseconds>(
                                               std::chrono::ceil<milliseconds>(stop_at - BootClock::now()),
                                               milliseconds(0), milliseconds(std::chrono::hours(1)));
      std::array<pollfd, 2> watched{{{signals_.descriptor(), POLLIN, 0}, {ended_.get(), POLLIN, 0}}};
      poll(watched.data(), watched.size(), static_cast<int>(left.count()));
      eventfd_t ignored = 0;
      eventfd_read(ended_.get(), &ignored);
      while (signals_.take()) {
        if (stop_at == never) {
          stop_at = saturating_add(BootClock::now(), drain_timeout_);
          drain_.request_stop();
          complain("draining: no further tasks are claimed. Commands may finish for " +
                       describe(drain_timeout_) + "; a second signal stops them",
                   {.event = "draining"});
        } else {
          stop_.request_stop();
        }
      }
      if (BootClock::now() >= stop_at) stop_.request_stop();
    }
    return stop_at != never;
  }

  static LogDetails about(const Job& job, std::string_view event, LogSeverity level) {
    return {.event = event,
            .level = level,
            .fields = {{"task_id", job.id()},
                       {"queue", job.queue()},
                       {"attempt", std::int64_t{job.attempt()}},
                       {"fence", job.fence().to_string()}}};
  }

  void run_slot(const Queue& queue) {
    try {
      while (!drain_.stop_requested()) {
        auto job = claim(queue);
        if (job) {
          ++worked_;
          work_on(*job);
        } else if (options_.until_empty || options_.once) {
          break;
        }
        if (options_.once) break;
      }
    } catch (const Error& error) {
      fail(exit_code_of(error.code()), to_string(error.code()), rpc::text_of(error));
    } catch (const std::exception& error) {
      fail(exit_internal, "Internal", std::string("unexpected error: ") + error.what());
    }
    --running_;
    eventfd_write(ended_.get(), 1);
  }

  /// Reports why this process cannot go on, and lets the other slots finish.
  void fail(int exit_code, std::string_view code, const std::string& message) {
    if (exit_code_.exchange(exit_code) == exit_ok) {
      complain(context_.json, code, context_.json ? message : printable(message));
    }
    drain_.request_stop();
  }

  std::optional<Job> claim(const Queue& queue) {
    const bool waits = !options_.once && !options_.until_empty;
    // No notice: the keeper counts the grace back from the end of the proof.
    const ClaimOptions how{
        .lease = times_.ttl, .notice = milliseconds(0), .wait = waits ? no_time_limit : milliseconds(0)};
    while (true) {
      try {
        return queue.run(operation::ClaimNextTask{detail::owned(how), options_.queues}, drain_.get_token());
      } catch (const Error& error) {
        if (drain_.stop_requested()) return std::nullopt;
        // A store that cannot be reached for long: a pool outlives it.
        if (!error.transient() || !waits) throw;
        complain_once("the store does not answer; trying again: " + error.message());
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
    }
  }

  void work_on(Job& job) {
    const auto task = job.task();
    std::vector<std::string> environment{"HOLDFAST_TASK_ID=" + task.id,
                                         "HOLDFAST_TASK_QUEUE=" + job.queue(),
                                         "HOLDFAST_TASK_ATTEMPT=" + std::to_string(job.attempt()),
                                         "HOLDFAST_TASK_FENCE=" + job.fence().to_string(),
                                         "HOLDFAST_TASK_AUTHORITY=" + job.token().authority,
                                         "HOLDFAST_TASK_INCARNATION=" + task.incarnation,
                                         "HOLDFAST_TASK_REQUESTER=" + task.requester,
                                         "HOLDFAST_URL=" + url_};
    // Other software may have stored such a task.
    if (const auto name = variable_with_nul(environment); !name.empty()) {
      return report(job, {.how = operation::EndJob::How::failed,
                          .message = "its command cannot be run: " + name + " would contain a NUL byte"});
    }
    JobCommand command(source_, times_);
    VariableWriter variables(
        {.task = task.id,
         .limits = limits_,
         .write = [&job](const Json& changes) { job.set_variables(changes); },
         .read = [queue = &queues_.at(job.queue()), &task] { return queue->get(task.id).variables; }},
        [](const std::string& what) { complain("warning: " + what); });
    const auto log = begin_log(job, task);
    std::function<void(std::size_t, std::string_view)> on_output;
    if (log) on_output = [&log](std::size_t stream, std::string_view bytes) { log->write(stream, bytes); };
    const JobCommand::Input input{.text = rpc::on_one_line(rpc::to_json(task).str()) + "\n",
                                  .environment = std::move(environment),
                                  .on_line = [&variables](std::string_view line) { variables.line(line); },
                                  .on_output = on_output,
                                  .stop = stop_.get_token()};
    const auto limit = task.queue ? task.queue->terms.attempt_limit : milliseconds(0);
    const auto too_long_at =
        limit > milliseconds(0) ? saturating_add(BootClock::now(), limit - limit_tolerance) : never;
    const auto end = command.run(job, input);
    variables.finish();
    if (log) keeper_->end(log);
    finish(job, command, end, too_long_at);
    command.forward_rest();
  }

  /// Null if no output is kept.
  std::shared_ptr<OutputKeeper::Log> begin_log(const Job& job, const Task& task) {
    if (!keeper_) return nullptr;
    return keeper_->begin([queue = &queues_.at(job.queue()), id = task.id, token = job.token(),
                           incarnation = task.incarnation, attempt = job.attempt()](NewOutput part) {
      part.token = token;
      part.incarnation = incarnation;
      part.attempt = attempt;
      queue->append_output(id, part);
    });
  }

  /// `too_long_at`: a lease that ends then, or later, is ended by the attempt's time limit.
  void finish(Job& job, const JobCommand& command, const CommandEnd& end, BootTime too_long_at) {
    using How = operation::EndJob::How;
    if (end.survivors.any()) {
      // The task must not be given to another worker while this command may still run.
      fail(exit_lost, "Internal", describe(end.survivors));
      const std::lock_guard lock(printing_);
      kept_.push_back(std::move(job));
      return;
    }
    switch (end.kind) {
      case CommandEnd::Kind::exec_failed:
        report(job, {.how = How::give_back});
        fail(end.value == ENOENT ? exit_not_found : exit_cannot_execute, "InvalidArgument",
             "cannot run " + quote(context_.command.front()) + ": " +
                 (end.value == ENOENT
                      ? "command not found. Holdfast starts no shell; for shell syntax use sh -c '...'"
                      : std::strerror(end.value)) +
                 ". The task was given back");
        return;
      case CommandEnd::Kind::keeper_died:
        return report(job,
                      {.how = How::retry, .message = "the process that supervises the command was killed"});
      case CommandEnd::Kind::lost:
        return finish_stopped(job, too_long_at);
      case CommandEnd::Kind::exited:
        break;
    }
    const int code = exit_code_of_status(end.value);
    const int signal = WIFSIGNALED(end.value) ? WTERMSIG(end.value) : 0;
    const auto failure = signal != 0 ? "the command died of signal " + std::to_string(signal)
                                     : "the command exited with " + std::to_string(code);
    if (code == 0) return report(job, {.how = How::completed, .result = result_of(command)});
    if (code == exit_fail_for_good) {
      return report(job, {.how = How::failed, .result = result_of(command), .message = failure});
    }
    report(job, {.how = How::retry,
                 .message = code == exit_retry_later ? "the command asked to be run again later (exit 75)"
                                                     : failure});
  }

  /// The command was stopped: by the end of the lease, by a client that ended the task, or by a signal to us.
  void finish_stopped(Job& job, BootTime too_long_at) {
    using How = operation::EndJob::How;
    const auto name = "the task " + quote(job.id()) + " of the queue " + quote(job.queue());
    if (job.cancelled() || job.gone()) {
      complain(context_.json, "TaskEnded",
               name + (job.cancelled() ? " was cancelled" : " was removed") + "; its command was stopped", {},
               about(job, "task_ended", LogSeverity::error));
      return;
    }
    // The command is stopped before the lease ends, so the job may not count as lost yet.
    const bool is_too_long = !stop_.stop_requested() && BootClock::now() + job.remaining() >= too_long_at;
    if (is_too_long || job.loss_reason() == LossReason::max_hold) {
      return report(job, {.how = How::retry, .message = "the attempt took longer than its time limit"});
    }
    if (job.loss_reason()) {
      complain(context_.json, "LockLost",
               "the lease of " + name + " could not be renewed in time; its command was stopped", {},
               about(job, "lock_lost", LogSeverity::error));
    }
    report(job, {.how = How::give_back});
  }

  static Json result_of(const JobCommand& command) {
    const auto& output = command.output();
    const auto last = output.find_last_not_of(" \t\r\n");
    if (last == std::string::npos) return Json();
    if (!command.output_is_cut()) {
      if (auto json = Json::parse(output)) return *std::move(json);
    }
    auto text = output.substr(0, last + 1);
    const bool is_cut = command.output_is_cut() || text.size() > max_text_output;
    if (text.size() > max_text_output) text.erase(0, text.size() - max_text_output);
    nlohmann::ordered_json result{{"output", text}};
    if (is_cut) result["truncated"] = true;
    return rpc::dump(result);
  }

  /// Sends the outcome, again if the store does not answer.
  void report(Job& job, operation::EndJob outcome) {
    using How = operation::EndJob::How;
    const auto give_up_at = BootClock::now() + outcome_retry_limit;
    bool is_unknown = false;  // one that was not answered may have been accepted
    while (true) {
      try {
        const auto task = job.run(outcome);
        if (outcome.how == How::give_back) ++given_back_;
        if (context_.json) print_outcome(task, job);
        log_outcome(job, task, outcome);
        return;
      } catch (const Error& error) {
        const bool is_refused = error.code() == ErrorCode::TooLarge || error.code() == ErrorCode::TooDeep;
        if (is_refused && outcome.result) {
          // The attempt counts: or the command would run again at once, forever.
          const auto reason = "its result was refused: " + error.message();
          if (outcome.how == How::completed) outcome.how = How::retry;
          outcome.message = outcome.message ? *outcome.message + "; " + reason : reason;
          outcome.result.reset();
          continue;
        }
        // A task that was completed or failed is claimed by no other worker: then a refusal is certain.
        const bool is_certain =
            (outcome.how == How::completed || outcome.how == How::failed) &&
            (error.code() == ErrorCode::StaleFence || error.code() == ErrorCode::InvalidTransition);
        const bool is_unanswered = error.transient() && error.effect() == Effect::unknown;
        is_unknown = is_unanswered || (is_unknown && !is_certain);
        if (error.transient() && BootClock::now() < give_up_at && !stop_.stop_requested()) {
          std::this_thread::sleep_for(milliseconds(500));
          continue;
        }
        complain(context_.json, to_string(error.code()),
                 "the outcome of the task " + quote(job.id()) + " (attempt " + std::to_string(job.attempt()) +
                     (is_unknown ? ") is unknown: " : ") was not accepted: ") +
                     (context_.json ? error.message() : printable(error.message())),
                 {}, about(job, "outcome_not_accepted", LogSeverity::error));
        return;
      }
    }
  }

  /// To people only attempts that failed are reported, and with --json none: its lines say it all.
  void log_outcome(const Job& job, const Task& task, const operation::EndJob& outcome) const {
    using How = operation::EndJob::How;
    if (outcome.how == How::completed) {
      log_event(about(job, "task_completed", LogSeverity::info));
    } else if (outcome.how == How::give_back) {
      log_event(about(job, "task_given_back", LogSeverity::info));
    } else if (outcome.message && (logs_json() || !context_.json)) {
      complain("task " + quote(job.id()) + " of " + quote(job.queue()) + ", attempt " +
                   std::to_string(job.attempt()) + ": " + printable(*outcome.message) + what_follows(task),
               about(job, "attempt_failed", LogSeverity::warning));
    }
  }

  /// After an attempt that failed.
  static std::string what_follows(const Task& task) {
    if (is_final(task.status)) return ". The task is failed";
    if (!task.queue || task.queue->place != QueuePlace::delayed) return ". It is tried again";
    const auto pause = task.queue->due_at - std::chrono::floor<milliseconds>(WallTime::clock::now());
    return ". It is tried again in " + describe(std::max(pause, milliseconds(0)));
  }

  void print_outcome(const Task& task, const Job& job) {
    const std::lock_guard lock(printing_);
    print_json({{"taskId", task.id},
                {"queue", job.queue()},
                {"attempt", job.attempt()},
                {"fence", job.fence().to_string()},
                {"status", to_string(task.status)},
                {"place", task.queue ? rpc::to_string(task.queue->place) : ""},
                {"message", task.status_message ? nlohmann::ordered_json(*task.status_message) : nullptr}});
  }

  void complain_once(const std::string& message) {
    if (!complained_.exchange(true)) complain("warning: " + printable(message));
  }

  const Context& context_;
  const WorkOptions& options_;
  LeaseTimes times_;
  milliseconds drain_timeout_;
  InheritedSignals inherited_;
  KeeperPlan plan_;
  KeeperSource source_;
  SignalQueue signals_;
  posix::Descriptor ended_ = posix::make_eventfd();
  std::string url_;
  std::stop_source drain_;  ///< no further claims
  std::stop_source stop_;   ///< stops the commands
  std::atomic<int> running_ = 0;
  std::atomic<int> worked_ = 0;
  std::atomic<int> given_back_ = 0;
  std::atomic<int> exit_code_ = exit_ok;
  std::atomic<bool> complained_ = false;
  TaskOptions limits_;
  std::map<std::string, Queue> queues_;  ///< for the output and the variables
  std::optional<OutputKeeper> keeper_;
  std::mutex printing_;
  int mark_ = -1;          ///< stands for this process in the store; see Queue::process_mark
  std::vector<Job> kept_;  ///< their leases have to expire: processes of their commands are left
};

}  // namespace

void add_task_work(Command task, Context& context) {
  auto command = task.add_command("work", "Run a command for each task of a queue");
  auto options = std::make_shared<WorkOptions>();
  command.add_option("QUEUE", options->queues, "The queues, in the order in which they are tried").required();
  command.add_option("-j,--jobs N", options->jobs, "Commands at once (default 1)").between(1, most_commands);
  auto once =
      command.add_flag("--once", options->once, "Work on one task, then exit; exit 1 if there is none");
  command
      .add_flag("--until-empty", options->until_empty,
                "Exit when no task can be claimed now; does not wait for delayed ones")
      .excludes(once);
  command.add_option(
      "--lease DURATION", options->lease.ttl,
      "How long a task stays claimed without renewal; renewed while the command runs (default 30s)");
  command.add_option(
      "--grace DURATION", options->lease.grace,
      "Time from TERM to KILL when a command is stopped. At most lease/3 (default: lease/6, at\n"
      "most 5s)");
  command.add_option("--drain-timeout DURATION", options->drain_timeout,
                     "After TERM: how long commands may go on before they are stopped (default 30s)");
  add_keep_output(command, options->keep_output);
  command.usage("Usage: holdfast task work [OPTIONS] QUEUE... -- COMMAND [ARGUMENT...]\n");
  command.footer(
      "Claims the next task of the queues, runs the command for it, and reports its outcome; then the next "
      "one.\n"
      "The command gets the task as one line of JSON on standard input, and HOLDFAST_TASK_ID,\n"
      "HOLDFAST_TASK_QUEUE, HOLDFAST_TASK_ATTEMPT, HOLDFAST_TASK_FENCE and HOLDFAST_TASK_REQUESTER in its\n"
      "environment. Its exit code is the outcome:\n"
      "\n"
      "  0     the task is completed. Standard output is the result if it is JSON, else {\"output\": TEXT}\n"
      "  65    the task is failed for good\n"
      "  75    try again later: a failed attempt, which counts, but by the command's own wish\n"
      "  other the attempt failed, signals included: the task is tried again after a pause that doubles,\n"
      "        until it has no attempts left (task add --attempts); then it is failed\n"
      "\n"
      "Lines NAME=JSON that the command writes to descriptor 3 become variables, for progress. Standard "
      "error\n"
      "is passed on to that of this process. `holdfast task logs --queue QUEUE ID` shows both, also while "
      "the\n"
      "command runs.\n"
      "\n"
      "A command, with all processes that it started, is stopped before its lease can expire, and when its\n"
      "task is cancelled or takes longer than its --time-limit. So a task is never worked on by two "
      "commands\n"
      "that holdfast controls, and of two outcomes only that of the last claim is accepted. What a command "
      "did\n"
      "elsewhere is not undone: pass the fence on, or make the work repeatable.\n"
      "\n"
      "TERM, INT or HUP: claims no more, and lets the commands finish for --drain-timeout; then, or at a "
      "second\n"
      "signal, stops them and gives their tasks back (the attempt does not count). With --json: a line for\n"
      "each outcome.\n"
      "\n"
      "Exit: 0; 1 with --once, no task; 126 or 127 the command cannot be run; 64 usage; 69 store "
      "unavailable.\n"
      "\n"
      "Examples:\n"
      "  holdfast task work render -j 4 -- ./render.sh\n"
      "  holdfast task work urgent normal -- ./worker           urgent tasks first\n"
      "  holdfast task work mail --once -- sh -c 'jq -r .variables.to | xargs ./send'");
  command.action([&context, options] {
    if (context.command.empty()) {
      throw UsageError(
          "task work: COMMAND is missing; usage: holdfast task work QUEUE... -- COMMAND [ARGUMENT...]");
    }
    CommandPool pool(context, *options);
    return pool();
  });
}

}  // namespace holdfast::cli
