#include <holdfast/holdfast.hpp>
#include <optional>

#include "arguments/context.hpp"
#include "arguments/values.hpp"
#include "lock_wait/lock_wait.hpp"
#include "metrics/run_record.hpp"
#include "supervision/locked_command.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct RunOptions {
  WaitOptions wait;
  std::string key;
  LeaseOptions lease;
  MetricsFile::Options metrics;
};

class Run {
 public:
  Run(const Context& context, const RunOptions& options)
      : context_(context),
        options_(options),
        times_(options.lease.check()),
        key_(LockKey::parse(options.key).value_or_throw().str()),
        wording_(LockWording::lock(key_)),
        report_(context.json, wording_, times_),
        record_(options.metrics) {
    (void)options.wait.length();  // throws before anything is done
    if (context.command.empty()) {
      throw UsageError("run: COMMAND is missing; usage: holdfast run KEY -- COMMAND [ARGUMENT...]");
    }
  }

  int operator()() {
    return record_.around([this] { return run(); });
  }

 private:
  int run() {
    LockedCommand command(context_.command, times_);
    InterruptibleWait waiting(command.signals(), options_.wait.announce(), wording_.log_fields);
    Holdfast holdfast = open_store(context_, {.retry_for = options_.wait.retry_for(),
                                              .observer = record_.observer(),
                                              .logged = LoggedActivities::incidents});
    warn_of_private_locks(holdfast.locks());

    auto how = times_.lock_options();
    record_.waits(holdfast.locks().capabilities().backend);
    const auto since = BootClock::now();
    auto acquired = acquire(holdfast.locks(), wording_, options_.wait, waiting,
                            [&](milliseconds wait, const std::stop_token& stop) {
                              how.wait = wait;
                              return holdfast.locks().lock(key_, how, stop);
                            });
    if (acquired.signal) {
      record_.ends_as(RunResult::interrupted);
      return exit_signal_base + *acquired.signal;
    }
    if (acquired.refusal) {
      record_.not_acquired();
      if (!options_.wait.quiet) report_.refused(*acquired.refusal, BootClock::now() - since);
      return options_.wait.conflict_exit_code;
    }
    auto& guard = *acquired.lock;
    record_.acquired(guard.fence());
    report_.acquired(guard, holdfast.locks(), BootClock::now() - since);
    // The guard's destructor releases.
    if (const auto signal = command.take_end_signal()) {
      record_.ends_as(RunResult::interrupted);
      return exit_signal_base + *signal;
    }
    const auto end = command.run(guard, holdfast.url(), report_);
    return finish(guard, end, command.held());
  }

  int finish(Guard& guard, const CommandEnd& end, nanoseconds held) {
    const auto reason = guard.loss_reason();
    record_.hold_ends();
    if (end.survivors.any()) {
      report_.survivors(end.survivors);
      report_.loss(end, reason, held);
      record_.ends_as(end.kind == CommandEnd::Kind::keeper_died ? RunResult::error : RunResult::lost);
      record_.write(exit_code_of_loss(end));
      exit_without_release(exit_code_of_loss(end));
    }
    if (end.kind == CommandEnd::Kind::lost) {
      report_.loss(end, reason, held);
      record_.ends_as(RunResult::lost);
      return exit_lost;  // the guard's destructor releases
    }
    report_.command_ended(end);
    const bool was_held = release(guard);
    record_.ends_as(RunResult::failed);
    if (end.kind == CommandEnd::Kind::exec_failed) {
      return report_.exec_failed(context_.command.front(), end.value);
    }
    if (end.kind == CommandEnd::Kind::keeper_died) {
      report_.loss(end, reason, held);
      record_.ends_as(RunResult::error);
      return exit_internal;
    }
    // The lock of a command that exited may have been broken under it, which no proof can exclude.
    if (reason == LossReason::gone || (!was_held && BootClock::now() < end.proven_until)) {
      report_.report("LockLost",
                     wording_.noun + " was released or acquired by another holder while the command ran",
                     {.event = "lock_lost", .level = LogSeverity::error});
      record_.ends_as(RunResult::lost);
      return exit_lost;
    }
    report_.released();
    const int code = exit_code_of_status(end.value);
    if (code == 0) record_.ends_as(RunResult::ok);
    return code;
  }

  /// Whether the lock was still held, or may have been.
  bool release(Guard& guard) const {
    try {
      return guard.release();
    } catch (const Error& error) {
      complain("warning: the release of the lock " + named_key(key_) + " was not confirmed (" +
                   without_key(printable(error.what()), key_) +
                   "). If it was not released, its lease will expire",
               {.event = "release_not_confirmed", .fields = wording_.log_fields});
      return true;
    }
  }

  const Context& context_;
  const RunOptions& options_;
  LeaseTimes times_;
  std::string key_;
  LockWording wording_;
  EndReport report_;
  RunRecord record_;
};

}  // namespace

void fill_run(Command run, Context& context) {
  auto options = std::make_shared<RunOptions>();
  options->wait.add_to(run);
  options->wait.add_verbose_to(run);
  options->wait.add_conflict_exit_code_to(run);
  run.add_flag("-q,--quiet", options->wait.quiet,
               "No message while waiting or if the lock is not acquired, only the exit code");
  run.add_option("--ttl DURATION", options->lease.ttl,
                 "Lease: how long the lock stays held after its holder dies; renewed while the command runs\n"
                 "(default 30)");
  run.add_option("--grace DURATION", options->lease.grace,
                 "Time from TERM to KILL when the lock is lost. At most ttl/3 (default: ttl/6, at most 5)");
  run.add_option("--max-hold DURATION", options->lease.max_hold,
                 "Stop the command after it has held the lock for this long");
  options->metrics.add_to(run, "Write the times and the outcome of this run");
  run.add_option("KEY", options->key, "Lock key: up to 512 bytes of UTF-8").required();
  // The parser never sees the command.
  run.usage("Usage: holdfast run [OPTIONS] KEY -- COMMAND [ARGUMENT...]\n");
  run.footer(
      "The command's environment has HOLDFAST_KEY, HOLDFAST_LOCK_ID, HOLDFAST_FENCE, HOLDFAST_AUTHORITY,\n"
      "HOLDFAST_EXPIRES_AT_MS and HOLDFAST_URL. Durations: 30 (seconds), 0.5, 500ms, 30s, 5m, 2h, 1d.\n"
      "\n"
      "By default each user has a store of their own: locks of root and of another user do not exclude each\n"
      "other. Use --system for one store per machine, or --url for any other store.\n"
      "\n"
      "Exit: the command's own code; 128+N if it died of signal N; 126 or 127 if it cannot be run;\n"
      "75 (or -E) not acquired; 79 lock lost; 64 usage; 69 store unavailable; 77 access denied; 70 "
      "internal.\n"
      "\n"
      "Examples:\n"
      "  holdfast run nightly-backup -- ./backup.sh           wait for the lock, then run\n"
      "  holdfast run -n nightly-backup -- ./backup.sh        exit 75 if the lock is held\n"
      "  holdfast run -w 5m deploy -- make deploy             wait at most five minutes\n"
      "  holdfast run deploy -- sh -c 'echo $HOLDFAST_FENCE'  shell syntax needs a shell\n"
      "  holdfast run --ttl 10 --max-hold 1h report -- ./report --full\n"
      "  holdfast run --metrics-file /var/lib/prometheus/node-exporter/backup.prom backup -- ./backup.sh");
  run.action([&context, options] { return Run(context, *options)(); });
}

}  // namespace holdfast::cli
