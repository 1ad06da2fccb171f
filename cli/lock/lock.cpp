#include "lock/lock.hpp"

#include <unistd.h>

#include <fstream>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "acquire/acquire.hpp"
#include "arguments/values.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

namespace {

std::string first_word(std::istream& input, const std::string& where) {
  std::string word;
  if (!(input >> std::ws)) throw UsageError(where + ": is empty; a lock id was expected there");
  constexpr std::size_t limit = 1000;  // the file may be any
  // The end of the input is below zero.
  for (int c = input.get(); c > ' ' && word.size() < limit; c = input.get()) {
    word += static_cast<char>(c);
  }
  return word;
}

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
void print_acquired(const Context& context, const AcquireOptions& options, const Lease& lock) {
  if (context.json) {
    print_json({{"lockId", lock.id.str()},
                {"fence", lock.fence.to_string()},
                {"expiresAtMs", lock.expires_at.time_since_epoch().count()},
                {"key", lock.key}});
    return;
  }
  if (options.wait.quiet || isatty(STDOUT_FILENO) != 1) {
    print_text(lock.id.str());
    return;
  }
  print_fields({{"lockId", std::string(lock.id.str())},
                {"fence", lock.fence.to_string()},
                {"expires", expiry(lock.expires_at)},
                {"key", lock.key}});
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

struct LockOfId {
  LockIdArgument id;
  std::string key;
  std::string ttl;
};

int release(const Context& context, const LockOfId& options) {
  const auto id = options.id.read();
  if (!open(context.url_or_default()).locks().release(id.str())) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "not-found"}},
                           "that lock id holds no lock: it was released before or has expired");
    return exit_not_held;
  }
  if (context.json) print_json({{"ok", true}});
  return exit_ok;
}

int extend(const Context& context, const LockOfId& options) {
  const auto id = options.id.read();
  const auto ttl = Ttl::of(parse_positive_duration("--ttl", options.ttl)).value_or_throw();
  const auto expires = open(context.url_or_default()).locks().extend(id.str(), ttl.length());
  if (!expires) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "not-found"}},
                           "that lock id holds no lock: it was released or has expired, and is not revived");
    return exit_not_held;
  }
  if (context.json) {
    print_json({{"ok", true}, {"expiresAtMs", expires->time_since_epoch().count()}});
  } else {
    print_fields({{"expires", expiry(*expires)}});
  }
  return exit_ok;
}

int owns(const Context& context, const LockOfId& options) {
  const auto key = LockKey::parse(options.key).value_or_throw();
  const auto id = options.id.read();
  const bool owns = open(context.url_or_default()).locks().owns(key.str(), id.str());
  if (context.json) {
    print_json({{"owns", owns}});
  } else if (!owns) {
    complain("that lock id does not hold " + quote(key.str()) + " (any more)");
  }
  return owns ? exit_ok : exit_not_held;
}

void add_lock_release(Command lock, Context& context) {
  auto command = lock.add_command("release", "Release a lock by its id");
  auto options = std::make_shared<LockOfId>();
  options->id.add_to(command);
  command.footer(
      "Exit: 0 released; 1 that id holds nothing (any more).\n"
      "\n"
      "Examples:\n"
      "  holdfast lock release \"$id\"\n"
      "  holdfast lock release - <<<\"$id\"                 where others must not see it in `ps`\n"
      "  holdfast lock release --id-file deploy.lock");
  command.action([&context, options] { return release(context, *options); });
}

void add_lock_extend(Command lock, Context& context) {
  auto command = lock.add_command("extend", "Let a lock last for a ttl from now on");
  auto options = std::make_shared<LockOfId>();
  options->id.add_to(command);
  command.add_option("--ttl DURATION", options->ttl, "From now on, in place of what was left").required();
  command.footer(
      "Exit: 0 extended; 1 that id holds nothing (any more).\n"
      "\n"
      "Examples:\n"
      "  holdfast lock extend \"$id\" --ttl 10m");
  command.action([&context, options] { return extend(context, *options); });
}

void add_lock_owns(Command lock, Context& context) {
  auto command = lock.add_command("owns", "Tell whether a lock id holds that very lock");
  auto options = std::make_shared<LockOfId>();
  command.add_option("KEY", options->key, "The lock's name").required();
  options->id.add_to(command);
  command.footer(
      "For diagnosis only: a moment later it may be untrue, so it guards nothing. To go on only while the\n"
      "lock is held, use `lock extend`, which proves it, or `holdfast run`.\n"
      "\n"
      "Exit: 0 it does; 1 it does not: it was released, has expired, or is another lock's.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock owns deploy \"$id\" || echo 'not ours any more'");
  command.action([&context, options] { return owns(context, *options); });
}

}  // namespace

void LockIdArgument::add_to(Command command, const std::string& names) {
  command.add_option(names, id, "The lock id that `lock acquire` printed; - reads it from standard input");
  command
      .add_option("--id-file FILE", file,
                  "Read the lock id from this file: arguments are shown to all users by `ps`")
      .not_empty();
}

LockId LockIdArgument::read() const {
  if (id && file) throw UsageError("--id-file: excludes an ID on the command line");
  if (!given()) throw UsageError("ID is required: the lock id, - for standard input, or --id-file FILE");
  std::string text;
  if (file) {
    std::ifstream input(*file);
    if (!input) throw UsageError("--id-file: " + quote(*file) + " cannot be read");
    text = first_word(input, "--id-file");
  } else {
    text = *id == "-" ? first_word(std::cin, "standard input") : *id;
  }
  return LockId::parse(text).value_or_throw();
}

void fill_lock(Command lock, Context& context) {
  lock.require_subcommand();
  lock.footer(
      "Examples:\n"
      "  holdfast lock acquire --ttl 10m deploy\n"
      "  holdfast lock extend \"$id\" --ttl 10m\n"
      "  holdfast lock release \"$id\"\n"
      "  holdfast lock show deploy\n"
      "  holdfast lock list\n"
      "  holdfast lock break deploy --reason 'its machine is gone'");
  add_lock_acquire(lock, context);
  add_lock_release(lock, context);
  add_lock_extend(lock, context);
  add_lock_show(lock, context);
  add_lock_owns(lock, context);
  add_lock_list(lock, context);
  add_lock_break(lock, context);
}

}  // namespace holdfast::cli
