#include <unistd.h>

#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "duration.hpp"
#include "exit_codes.hpp"
#include "locked_command.hpp"
#include "output.hpp"
#include "slices.hpp"
#include "stop_after.hpp"
#include "waiting.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds default_wait = std::chrono::seconds(5);

struct AcquireOptions {
  /// As every caller of the library that says nothing. `run`, like flock(1), waits without a limit: it has
  /// work to do that somebody wants done.
  Patience patience{.by_default = default_wait};
  std::string key;
  std::string ttl = "30";
  int conflict_exit_code = exit_not_acquired;
  bool quiet = false;
};

int refused(const Context& context, const AcquireOptions& options, const std::string& message) {
  if (context.json) {
    print_json({{"ok", false}, {"reason", "locked"}});
  } else {
    complain(message);
  }
  return options.conflict_exit_code;
}

/// The lock, or nothing after contention.
std::optional<DetachedLock> attempt(Locks& locks, const std::string& key, LockOptions how,
                                    milliseconds patience, const std::stop_token& stop) {
  try {
    return wait_in_slices(patience, [&](milliseconds wait) {
      how.wait = wait;
      return locks.acquire(key, how, stop);
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::AcquisitionTimeout) throw;
    return std::nullopt;
  }
}

/// To a program the id alone, as `task create` prints one: `id=$(holdfast lock acquire k)`.
void print(const Context& context, const AcquireOptions& options, const DetachedLock& lock) {
  if (context.json) {
    print_json({{"lockId", lock.id.str()},
                {"fence", lock.fence.to_string()},
                {"expiresAtMs", lock.expires_at_ms},
                {"key", lock.key.str()}});
    return;
  }
  if (options.quiet || isatty(STDOUT_FILENO) != 1) {
    print_text(lock.id.str());
    return;
  }
  print_fields(
      {{"lockId", std::string(lock.id.str())},
       {"fence", lock.fence.to_string()},
       {"expires", iso_time(lock.expires_at_ms) + " (in " + describe(time_until(lock.expires_at_ms)) + ")"},
       {"key", lock.key.str()}});
}

int acquire(const Context& context, const AcquireOptions& options) {
  const auto key = LockKey::parse(options.key).value_or_throw().str();
  const auto subject = Subject::lock(key);
  const LockOptions how{
      .ttl = Ttl::of(parse_positive_duration("--ttl", options.ttl)).value_or_throw().length(),
      .retries = no_retry_limit};
  const auto patience = options.patience.length();

  const InheritedSignals inherited;
  // Nobody may interrupt between the grant and the moment its id is on paper.
  SignalQueue signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}, inherited);
  std::signal(SIGPIPE, SIG_IGN);
  InterruptibleWait waiting(signals,
                            options.quiet && !options.patience.verbose ? Saying::never : Saying::always);
  Holdfast holdfast = open(context.url_or_default());
  warn_of_private_locks(holdfast);
  auto& locks = holdfast.locks();
  waiting.begin_attempts();

  std::optional<DetachedLock> lock;
  std::string refusal;
  std::optional<int> signal;
  try {
    lock = attempt(locks, key, how, milliseconds::zero(), waiting.stop());
    if (!lock && held_by_enclosing_run(locks, key, waiting.stop())) {
      refusal = subject.nested;
    } else if (!lock && patience > milliseconds::zero()) {
      waiting.begin_waiting(subject.name);
      lock = attempt(locks, key, how, patience, waiting.stop());
    }
    if (!lock && refusal.empty()) refusal = not_acquired_message(locks, subject, patience, waiting.stop());
    signal = waiting.finish();
  } catch (const Error&) {
    signal = waiting.finish();
    if (!signal) throw;
  }
  if (signal) {
    if (lock) locks.release(lock->id.str(), StopAfter(last_release_timeout).token());
    return exit_signal_base + *signal;
  }
  if (!lock) return refused(context, options, refusal);
  try {
    print(context, options, *lock);
  } catch (...) {
    locks.release(lock->id.str());  // nobody learned the id, so nobody else could
    throw;
  }
  return exit_ok;
}

}  // namespace

void add_lock_acquire(Command lock, Context& context) {
  auto command =
      lock.add_command("acquire", "Take a lock that outlives this command, until released or expired");
  auto options = std::make_shared<AcquireOptions>();
  options->patience.add_waits_to(command);
  command
      .add_option("-E,--conflict-exit-code", options->conflict_exit_code,
                  "Exit with this if the lock was not acquired (default 75)")
      .value_name("N")
      .between(0, 255);
  command.add_flag("--verbose", options->patience.verbose,
                   "Say on stderr what is being waited for: the default, but for --quiet");
  command.add_flag("-q,--quiet", options->quiet,
                   "Print the lock id alone, as to a pipe; and nothing while waiting");
  command.add_option("--ttl", options->ttl, "When the lock ends unless it is extended (default 30)")
      .value_name("DURATION");
  command.add_option("KEY", options->key, "The lock's name: up to 512 bytes of UTF-8").required();
  command.footer(
      "Nobody renews this lock: extend it with its id, or prefer `holdfast run`.\n"
      "Whoever knows the lock id can release the lock: treat it as a password.\n"
      "\n"
      "On a terminal it prints id, fence, expiry and key; elsewhere the id alone, or with --json all of it.\n"
      "After a second stderr tells what is being waited for.\n"
      "\n"
      "Exit: 0 acquired; 75 (or -E) not within the time.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock acquire --ttl 10m deploy\n"
      "  id=$(holdfast lock acquire -w 1h --ttl 10m deploy) || exit\n"
      "  holdfast --json lock acquire -n deploy | jq -r .fence");
  command.action([&context, options] { return acquire(context, *options); });
}

}  // namespace holdfast::cli
