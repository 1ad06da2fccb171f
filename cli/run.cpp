#include <holdfast/holdfast.hpp>
#include <optional>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "lease_times.hpp"
#include "locked_command.hpp"
#include "output.hpp"
#include "patient.hpp"
#include "usage_error.hpp"
#include "waiting.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct RunOptions {
  Patience patience;
  std::string key;
  LeaseOptions lease;
  int conflict_exit_code = exit_not_acquired;
  bool quiet = false;
};

class Run {
 public:
  Run(const Context& context, const RunOptions& options)
      : context_(context),
        options_(options),
        wait_(options.patience.length()),
        times_(options.lease.check()),
        key_(LockKey::parse(options.key).value_or_throw().str()),
        subject_(Subject::lock(key_)),
        report_(context.json, subject_, times_) {
    if (context.command.empty()) {
      throw UsageError("run: no command given; write: holdfast run KEY -- COMMAND [ARGUMENT...]");
    }
  }

  int operator()() {
    LockedCommand command(context_.command, times_);
    InterruptibleWait waiting(command.signals(), saying());
    Holdfast holdfast = open(context_.url_or_default());
    warn_of_private_locks(holdfast);

    Guard guard;
    if (const auto code = acquire(holdfast.locks(), waiting, guard)) return *code;
    // The guard releases.
    if (const auto signal = command.told_to_end()) return exit_signal_base + *signal;
    const auto ending = command.run(guard, holdfast.url(), report_);
    return finish(guard, ending, command.held());
  }

 private:
  [[nodiscard]] Saying saying() const noexcept {
    return options_.quiet && !options_.patience.verbose ? Saying::never : options_.patience.saying();
  }

  /// An exit code, or nothing and a guard.
  std::optional<int> acquire(Locks& locks, InterruptibleWait& waiting, Guard& guard) {
    LockOptions how{.ttl = times_.ttl,
                    .retries = no_retry_limit,
                    .max_hold = times_.max_hold,
                    .dispose_timeout = last_release_timeout};
    auto taken = take_with_patience(locks, subject_, wait_, waiting,
                                    [&](milliseconds wait, const std::stop_token& stop) {
                                      how.wait = wait;
                                      return locks.lock(key_, how, stop);
                                    });
    if (taken.signal) return exit_signal_base + *taken.signal;
    if (taken.refusal) {
      if (!options_.quiet) report_.tell(to_string(ErrorCode::AcquisitionTimeout), *taken.refusal);
      return options_.conflict_exit_code;
    }
    guard = *std::move(taken.got);
    return std::nullopt;
  }

  int finish(Guard& guard, const Ending& ending, nanoseconds held) {
    const auto reason = guard.loss_reason();
    if (ending.survivors.any()) {
      report_.say_survivors(ending.survivors);
      report_.say_loss(ending, reason, held);
      leave_lock_to_expire(ending.kind == Ending::Kind::keeper_died ? exit_internal : exit_lost);
    }
    if (ending.kind == Ending::Kind::lost) {
      report_.say_loss(ending, reason, held);
      return exit_lost;  // the guard releases
    }
    const bool was_held = release(guard);
    switch (ending.kind) {
      case Ending::Kind::exec_failed:
        return report_.exec_failed(context_.command.front(), ending.value);
      case Ending::Kind::keeper_died:
        report_.say_loss(ending, reason, held);
        return exit_internal;
      case Ending::Kind::lost:
      case Ending::Kind::exited:
        break;
    }
    if (EndingReport::taken_away(ending, reason, was_held)) {
      report_.say_taken_away();
      return exit_lost;
    }
    return exit_code_of_status(ending.value);
  }

  /// Whether the lock was still there, or may have been.
  bool release(Guard& guard) const {
    try {
      return guard.release();
    } catch (const Error& error) {
      complain("warning: releasing the lock " + quote(key_) + " was not confirmed (" +
               printable(error.what()) + "). Unless it was released, it ends with its lease");
      return true;
    }
  }

  const Context& context_;
  const RunOptions& options_;
  milliseconds wait_;
  LeaseTimes times_;
  std::string key_;
  Subject subject_;
  EndingReport report_;
};

}  // namespace

void add_run(Command app, Context& context) {
  auto run = app.add_command("run", "Run a command while holding a lock");
  auto options = std::make_shared<RunOptions>();
  options->patience.add_to(run);
  run.add_option("-E,--conflict-exit-code", options->conflict_exit_code,
                 "Exit with this if the lock was not acquired (default 75)")
      .value_name("N")
      .between(0, 255);
  run.add_flag("-q,--quiet", options->quiet,
               "Say nothing if the lock was not acquired, nor while waiting: the exit code tells");
  run.add_option("--ttl", options->lease.ttl,
                 "How long the lock outlives a dead holder; renewed while the command runs (default 30)")
      .value_name("DURATION");
  run.add_option("--grace", options->lease.grace,
                 "If the lock is lost: from TERM to KILL. At most ttl/3 (default: ttl/6, at most 5)")
      .value_name("DURATION");
  run.add_option("--max-hold", options->lease.max_hold, "End the command if it holds the lock for this long")
      .value_name("DURATION");
  run.add_option("KEY", options->key, "The lock's name: up to 512 bytes of UTF-8").required();
  // The parser never sees the command.
  run.usage("Usage: holdfast run [OPTIONS] KEY -- COMMAND [ARGUMENT...]\n");
  run.footer(
      "The command finds HOLDFAST_KEY, HOLDFAST_LOCK_ID, HOLDFAST_FENCE, HOLDFAST_AUTHORITY,\n"
      "HOLDFAST_EXPIRES_AT_MS and HOLDFAST_URL in its environment. Durations: 30 (seconds), 0.5, 500ms,\n"
      "30s, 5m, 2h, 1d.\n"
      "\n"
      "Locks live in a file per user unless --url names another store: root and another user do not exclude\n"
      "each other by default. With --system they do: its store is the machine's.\n"
      "\n"
      "Exit: the command's own code; 128+N if it died of signal N; 126 or 127 if it cannot be run;\n"
      "75 (or -E) not acquired; 79 lock lost; 64 usage; 69 backend unavailable; 77 refused; 70 internal.\n"
      "\n"
      "Examples:\n"
      "  holdfast run nightly-backup -- ./backup.sh           wait for the lock, then run\n"
      "  holdfast run -n nightly-backup -- ./backup.sh        run only if nobody else does\n"
      "  holdfast run -w 5m deploy -- make deploy             wait five minutes at most\n"
      "  holdfast run deploy -- sh -c 'echo $HOLDFAST_FENCE'  a shell, if you want one\n"
      "  holdfast run --ttl 10 --max-hold 1h report -- ./report --full");
  run.action([&context, options] { return Run(context, *options)(); });
}

}  // namespace holdfast::cli
