#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <holdfast/holdfast.hpp>
#include <holdfast/memory.hpp>
#include <optional>

#include "command.hpp"
#include "context.hpp"
#include "duration.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "slices.hpp"
#include "supervisor.hpp"
#include "system_error.hpp"
#include "usage_error.hpp"
#include "waiting.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct RunOptions {
  Patience patience;
  std::string key;
  std::string ttl = "30";
  std::optional<std::string> grace;
  std::optional<std::string> max_hold;
  int conflict_exit_code = exit_not_acquired;
};

/// The times of one run, checked against each other.
struct Times {
  milliseconds wait{};
  milliseconds ttl{};
  milliseconds max_hold{};
  nanoseconds grace{};
  nanoseconds margin{};
};

Times check_times(const RunOptions& options) {
  Times times;
  times.wait = options.patience.length();
  times.ttl = Ttl::of(parse_positive_duration("--ttl", options.ttl)).value_or_throw().length();
  if (options.max_hold) times.max_hold = parse_positive_duration("--max-hold", *options.max_hold);

  // The command must be gone before the lease or the longest hold ends, whichever is shorter.
  const bool capped = times.max_hold > milliseconds::zero() && times.max_hold < times.ttl;
  const nanoseconds shortest = capped ? times.max_hold : times.ttl;
  times.margin = std::clamp<nanoseconds>(shortest / 20, milliseconds(10), milliseconds(500));
  times.grace = std::min<nanoseconds>(std::chrono::seconds(5), shortest / 6);
  if (options.grace) {
    times.grace = parse_duration("--grace", *options.grace);
    if (times.grace > shortest / 3) {
      throw UsageError("--grace: " + quote(*options.grace) + " is more than a third of the " +
                       (capped ? "--max-hold" : "--ttl") + " of " +
                       describe(std::chrono::floor<milliseconds>(shortest)) +
                       "; the lock could not be renewed in time. Use a longer --" +
                       (capped ? "max-hold" : "ttl") + " or a shorter --grace");
    }
  }
  return times;
}

/// With one of the standard descriptors closed, the next file opened would take its number, and what is
/// meant for stderr would land in it. Close-on-exec, so the command finds it closed as our caller left it.
void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) checked(::open("/dev/null", O_RDWR | O_CLOEXEC), "cannot open /dev/null");
  }
}

std::vector<Process> own_children() {
  const pid_t self = getpid();
  auto all = all_processes().value_or(std::vector<Process>{});
  std::erase_if(all, [self](const Process& process) { return process.parent != self; });
  return all;
}

std::vector<std::string> environment_for(const Guard& guard, const std::string& url) {
  const std::string id(guard.id().str());
  const char* outer = std::getenv("HOLDFAST_CHAIN");
  const std::string chain = outer == nullptr || *outer == '\0' ? id : id + " " + outer;
  return {"HOLDFAST_KEY=" + guard.key(),
          "HOLDFAST_LOCK_ID=" + id,
          "HOLDFAST_FENCE=" + guard.fence().to_string(),
          "HOLDFAST_AUTHORITY=" + guard.authority(),
          "HOLDFAST_EXPIRES_AT_MS=" + std::to_string(guard.expires_at_ms()),
          "HOLDFAST_URL=" + url,
          "HOLDFAST_CHAIN=" + chain};
}

class Run {
 public:
  Run(const Context& context, const RunOptions& options)
      : context_(context),
        options_(options),
        times_(check_times(options)),
        key_(LockKey::parse(options.key).value_or_throw().str()) {
    if (context.command.empty()) {
      throw UsageError("run: no command given; write: holdfast run KEY -- COMMAND [ARGUMENT...]");
    }
  }

  int operator()() {
    const InheritedSignals inherited;
    occupy_standard_descriptors();
    auto strangers = own_children();
    // Ignored, SIGCHLD would take the exit codes away, and SIGPIPE must not end us over a closed stderr.
    std::signal(SIGCHLD, SIG_DFL);
    std::signal(SIGPIPE, SIG_IGN);
    checked(prctl(PR_SET_CHILD_SUBREAPER, 1), "cannot become a subreaper");
    Keeper keeper = Keeper::fork(
        {.command = context_.command, .grace = times_.grace, .margin = times_.margin}, inherited);
    // Before the engine starts threads: they inherit the mask.
    SignalQueue signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2},
                        inherited);
    Holdfast holdfast = open(context_.url_or_default());
    if (holdfast.locks().capabilities().backend == memory_capabilities.backend) {
      complain("warning: memory: is private to this process, so the lock keeps nobody out; use sqlite:PATH");
    }

    std::optional<Guard> guard;
    if (const auto code = acquire(holdfast.locks(), signals, guard)) return *code;
    // Whoever wanted us to end before there was a command does not want it to begin. The guard releases.
    if (const auto signal = signals.take_one_of({SIGINT, SIGTERM, SIGHUP, SIGQUIT}))
      return exit_signal_base + *signal;
    const auto held_since = BootClock::now();
    const auto terminal = Terminal::controlling();
    Supervisor supervisor(*guard, keeper, signals, terminal ? &*terminal : nullptr,
                          {.ttl = times_.ttl,
                           .grace = times_.grace,
                           .margin = times_.margin,
                           .strangers = std::move(strangers)});
    const auto ending = supervisor.run(environment_for(*guard, holdfast.url()));
    return finish(*guard, ending, BootClock::now() - held_since);
  }

 private:
  /// An exit code, or nothing and a guard.
  std::optional<int> acquire(Locks& locks, SignalQueue& signals, std::optional<Guard>& guard) {
    LockOptions how{
        .ttl = times_.ttl, .wait = times_.wait, .retries = no_retry_limit, .max_hold = times_.max_hold};
    guard = locks.try_lock(key_, how);
    if (guard) return std::nullopt;
    if (held_by_enclosing_run(locks, key_)) return refused(nested_message(key_));
    if (times_.wait == milliseconds::zero()) return refused(not_acquired_message(locks, key_, times_.wait));

    InterruptibleWait waiting(signals, key_, options_.patience.verbose);
    try {
      guard = wait_in_slices(times_.wait, [&](milliseconds wait) {
        how.wait = wait;
        return locks.lock(key_, how, waiting.stop());
      });
    } catch (const Error& error) {
      if (const auto signal = waiting.finish()) return exit_signal_base + *signal;
      if (error.code() != ErrorCode::AcquisitionTimeout) throw;
      return refused(not_acquired_message(locks, key_, times_.wait));
    }
    if (const auto signal = waiting.finish()) return exit_signal_base + *signal;  // the guard releases
    return std::nullopt;
  }

  /// On stderr also with --json: stdout is the command's.
  int refused(const std::string& message) const {
    tell(to_string(ErrorCode::AcquisitionTimeout), message);
    return options_.conflict_exit_code;
  }

  void tell(std::string_view code, const std::string& message) const {
    if (context_.json) {
      complain_json(code, message);
    } else {
      complain(message);
    }
  }

  int finish(Guard& guard, const Ending& ending, nanoseconds held) {
    const auto reason = guard.loss_reason();
    if (ending.beyond_reach > 0) {
      tell("Internal", std::to_string(ending.beyond_reach) +
                           " process(es) of the command run as another user and could not be ended; the lock "
                           "is left to expire by itself");
      say_loss(ending, reason, held);
      // Releasing, which the guard would do, would let the next holder in even sooner.
      _exit(ending.kind == Ending::Kind::keeper_died ? exit_internal : exit_lost);
    }
    const bool was_held = release(guard);
    switch (ending.kind) {
      case Ending::Kind::exec_failed:
        tell("InvalidArgument",
             "cannot run " + quote(context_.command.front()) + " under the lock " + quote(key_) + ": " +
                 (ending.value == ENOENT ? "not found (no shell is implied; use sh -c '...' for one)"
                                         : std::strerror(ending.value)));
        return ending.value == ENOENT ? exit_not_found : exit_cannot_execute;
      case Ending::Kind::keeper_died:
      case Ending::Kind::lost:
        say_loss(ending, reason, held);
        return ending.kind == Ending::Kind::lost ? exit_lost : exit_internal;
      case Ending::Kind::exited:
        break;
    }
    // The command ended by itself while its lease was proven. Only if somebody took the lock away from
    // under it, which no proof can exclude, was it alone for less than its whole run.
    const bool taken_away =
        reason == LossReason::gone || (!was_held && BootClock::now() < ending.proven_until);
    if (taken_away) {
      tell("LockLost",
           "the lock " + quote(key_) + " was released or taken over by somebody else while the command ran");
      return exit_lost;
    }
    return WIFSIGNALED(ending.value) ? exit_signal_base + WTERMSIG(ending.value) : WEXITSTATUS(ending.value);
  }

  /// Whether the lock was still there, or may have been.
  bool release(Guard& guard) const {
    try {
      return guard.release();
    } catch (const Error& error) {
      complain("warning: the lock " + quote(key_) + " could not be released and ends with its lease (" +
               printable(error.what()) + ")");
      return true;
    }
  }

  void say_loss(const Ending& ending, std::optional<LossReason> reason, nanoseconds held) const {
    if (ending.kind == Ending::Kind::keeper_died) {
      tell("Internal", "the process that watches over the command was killed, so the command was ended");
      return;
    }
    // Near its end the keeper acts by the clock, before the guard says why.
    const bool held_too_long = reason == LossReason::max_hold ||
                               (!reason && times_.max_hold > milliseconds::zero() &&
                                held + times_.grace + times_.margin + milliseconds(100) >= times_.max_hold);
    std::string why = "its lease could not be renewed in time";
    if (held_too_long) {
      why = "it was held for the --max-hold of " + describe(times_.max_hold);
    } else if (reason == LossReason::gone) {
      why = "somebody else released it or took it over, or its store was lost";
    }
    tell("LockLost",
         "lost the lock " + quote(key_) + ": " + why +
             (ending.beyond_reach == 0 ? "; the command was ended" : "; the command could not be ended"));
  }

  const Context& context_;
  const RunOptions& options_;
  Times times_;
  std::string key_;
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
  run.add_option("--ttl", options->ttl,
                 "How long the lock outlives a dead holder; renewed while the command runs (default 30)")
      .value_name("DURATION");
  run.add_option("--grace", options->grace,
                 "If the lock is lost: from TERM to KILL. At most ttl/3 (default: ttl/6, at most 5)")
      .value_name("DURATION");
  run.add_option("--max-hold", options->max_hold, "End the command if it holds the lock for this long")
      .value_name("DURATION");
  run.add_option("KEY", options->key, "The lock's name: up to 512 bytes of UTF-8").required();
  // The parser never sees the command.
  run.usage("Usage: holdfast run [OPTIONS] KEY -- COMMAND [ARGUMENT...]\n");
  run.footer(
      "The command finds HOLDFAST_KEY, HOLDFAST_LOCK_ID, HOLDFAST_FENCE, HOLDFAST_AUTHORITY,\n"
      "HOLDFAST_EXPIRES_AT_MS and HOLDFAST_URL in its environment. Durations: 30 (seconds), 0.5, 500ms,\n"
      "30s, 5m, 2h, 1d.\n"
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
