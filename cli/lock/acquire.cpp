#include "acquire/acquire.hpp"

#include <unistd.h>

#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "arguments/values.hpp"
#include "lock/lock.hpp"
#include "terminal/exit_codes.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds default_wait = std::chrono::seconds(5);

struct AcquireOptions {
  /// The library's default. `run`, like flock(1), waits without a limit: its command has to run sooner or
  /// later.
  WaitOptions wait{.by_default = default_wait};
  std::string key;
  std::string ttl = "30";
};

/// Prints the id alone unless on a terminal, as `task create` does: `id=$(holdfast lock acquire k)`.
void print_acquired(const Context& context, const AcquireOptions& options, const DetachedLock& lock) {
  if (context.json) {
    print_json({{"lockId", lock.id.str()},
                {"fence", lock.fence.to_string()},
                {"expiresAtMs", lock.expires_at_ms},
                {"key", lock.key.str()}});
    return;
  }
  if (options.wait.quiet || isatty(STDOUT_FILENO) != 1) {
    print_text(lock.id.str());
    return;
  }
  print_fields({{"lockId", std::string(lock.id.str())},
                {"fence", lock.fence.to_string()},
                {"expires", expiry(lock.expires_at_ms)},
                {"key", lock.key.str()}});
}

int acquire_detached(const Context& context, const AcquireOptions& options) {
  const auto key = LockKey::parse(options.key).value_or_throw().str();
  LockOptions how{.ttl = Ttl::of(parse_positive_duration("--ttl", options.ttl)).value_or_throw().length(),
                  .retries = no_retry_limit};
  const auto limit = options.wait.length();

  const InheritedSignals inherited;
  // No signal may end this process between the grant and the moment the id is printed.
  SignalQueue signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}, inherited);
  std::signal(SIGPIPE, SIG_IGN);
  InterruptibleWait waiting(signals, options.wait.announce(Announce::always));
  Holdfast holdfast = open(context.url_or_default());
  auto& locks = holdfast.locks();
  warn_of_private_locks(locks);

  const auto acquired = acquire(locks, LockWording::lock(key), limit, waiting,
                                [&](milliseconds wait, const std::stop_token& stop) {
                                  how.wait = wait;
                                  return locks.acquire(key, how, stop);
                                });
  if (acquired.signal) {
    if (acquired.lock) locks.release(acquired.lock->id.str(), StopAfter(last_release_timeout).token());
    return exit_signal_base + *acquired.signal;
  }
  if (acquired.refusal) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "locked"}}, *acquired.refusal);
    return options.wait.conflict_exit_code;
  }
  try {
    print_acquired(context, options, *acquired.lock);
  } catch (...) {
    locks.release(acquired.lock->id.str());  // its id was not printed, so nothing else could
    throw;
  }
  return exit_ok;
}

}  // namespace

void add_lock_acquire(Command lock, Context& context) {
  auto command =
      lock.add_command("acquire", "Take a lock that outlives this command, until released or expired");
  auto options = std::make_shared<AcquireOptions>();
  options->wait.add_to(command);
  options->wait.add_conflict_exit_code_to(command);
  options->wait.add_verbose_to(command,
                               "Say on stderr what is being waited for: the default, but for --quiet");
  command.add_flag("-q,--quiet", options->wait.quiet,
                   "Print the lock id alone, as to a pipe; and nothing while waiting");
  command.add_option("--ttl DURATION", options->ttl, "When the lock ends unless it is extended (default 30)");
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
  command.action([&context, options] { return acquire_detached(context, *options); });
}

}  // namespace holdfast::cli
