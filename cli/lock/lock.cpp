#include "lock/lock.hpp"

#include <unistd.h>

#include <fstream>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "arguments/values.hpp"
#include "lock_wait/lock_wait.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

namespace {

std::string first_word(std::istream& input, const std::string& where) {
  std::string word;
  if (!(input >> std::ws)) throw UsageError(where + ": is empty; expected a lock id");
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
    nlohmann::ordered_json acquired{{"lockId", lock.id.str()},
                                    {"fence", lock.fence.to_string()},
                                    {"expiresAtMs", lock.expires_at.time_since_epoch().count()},
                                    {"key", lock.key}};
    if (lock.replicas) acquired["replicas"] = *lock.replicas;
    print_json(acquired);
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

/// The label of the process that ran this command: this one ends before the lock does, and an operator who
/// looks for it would find nothing. Empty, which is the label of the store, if a label was chosen, or if the
/// caller is not known or is the first process of its machine or container.
std::string label_of_caller(const Locks& locks) {
  const auto own = locks.holder();
  const auto caller = getppid();
  if (caller <= 1 || !own || *own != *LockHolder::of_this_process()) return {};
  return LockHolder::of_process(caller, geteuid())->str();
}

int acquire_detached(const Context& context, const AcquireOptions& options) {
  const auto key = LockKey::parse(options.key).value_or_throw().str();
  LockOptions how{.ttl = Ttl::of(parse_positive_duration("--ttl", options.ttl)).value_or_throw().length(),
                  .retries = no_retry_limit};

  const InheritedSignals inherited;
  // No signal may end this process between the grant and the moment the id is printed.
  SignalQueue signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}, inherited);
  std::signal(SIGPIPE, SIG_IGN);
  InterruptibleWait waiting(signals, options.wait.announce(Announce::always));
  Holdfast holdfast = open_store(context, {.retry_for = options.wait.retry_for()});
  auto& locks = holdfast.locks();
  warn_of_private_locks(locks);
  const auto holder = label_of_caller(locks);
  how.holder = holder;

  const auto acquired = acquire(locks, LockWording::lock(key), options.wait, waiting,
                                [&](milliseconds wait, const std::stop_token& stop) {
                                  how.wait = wait;
                                  return locks.acquire(key, how, stop);
                                });
  if (acquired.signal) {
    if (acquired.lock) locks.release(acquired.lock->id.str(), StopAfter(last_release_timeout).token());
    return exit_signal_base + *acquired.signal;
  }
  if (acquired.refusal) {
    nlohmann::ordered_json object{{"ok", false}, {"reason", "locked"}};
    if (!acquired.refusal->holder.empty()) object["holder"] = acquired.refusal->holder;
    print_json_or_complain(context.json, object, acquired.refusal->message);
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
  auto command = lock.add_command(
      "acquire", "Acquire a lock that stays held after this command, until released or expired");
  auto options = std::make_shared<AcquireOptions>();
  options->wait.add_to(command);
  options->wait.add_conflict_exit_code_to(command);
  options->wait.add_verbose_to(command, "Report waiting on stderr (the default, unless --quiet)");
  command.add_flag("-q,--quiet", options->wait.quiet, "Print only the lock id, and nothing while waiting");
  command.add_option("--ttl DURATION", options->ttl,
                     "Lease: the lock expires after this time unless extended (default 30)");
  command.add_option("KEY", options->key, "Lock key: up to 512 bytes of UTF-8").required();
  command.footer(
      "The lock is not renewed: extend it by its id (`lock extend`), or use `holdfast run`.\n"
      "The lock id is enough to release the lock: treat it as a password.\n"
      "\n"
      "On a terminal this prints id, fence, expiry and key; otherwise only the id. --json prints all four.\n"
      "After one second of waiting, a line on stderr names the lock.\n"
      "\n"
      "Exit: 0 acquired; 75 (or -E) not acquired in time.\n"
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
  if (!open_store(context).locks().release(id.str())) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "not-found"}},
                           "this lock id holds no lock: already released or expired");
    return exit_not_held;
  }
  if (context.json) print_json({{"ok", true}});
  return exit_ok;
}

int extend(const Context& context, const LockOfId& options) {
  const auto id = options.id.read();
  const auto ttl = Ttl::of(parse_positive_duration("--ttl", options.ttl)).value_or_throw();
  const auto expires = open_store(context).locks().extend(id.str(), ttl.length());
  if (!expires) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "not-found"}},
                           "this lock id holds no lock: released or expired. An expired lock cannot be "
                           "extended; acquire it again");
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
  const bool owns = open_store(context).locks().owns(key.str(), id.str());
  if (context.json) {
    print_json({{"owns", owns}});
  } else if (!owns) {
    complain("this lock id does not hold " + named_key(key.str()), {.fields = {key_field(key.str())}});
  }
  return owns ? exit_ok : exit_not_held;
}

void add_lock_release(Command lock, Context& context) {
  auto command = lock.add_command("release", "Release a lock by its id");
  auto options = std::make_shared<LockOfId>();
  options->id.add_to(command);
  command.footer(
      "Exit: 0 released; 1 this id holds no lock.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock release \"$id\"\n"
      "  holdfast lock release - <<<\"$id\"                 hides the id from `ps`\n"
      "  holdfast lock release --id-file deploy.lock");
  command.action([&context, options] { return release(context, *options); });
}

void add_lock_extend(Command lock, Context& context) {
  auto command = lock.add_command("extend", "Set a new expiry of a lock: a ttl from now");
  auto options = std::make_shared<LockOfId>();
  options->id.add_to(command);
  command.add_option("--ttl DURATION", options->ttl, "New lease, from now; replaces the rest of the old one")
      .required();
  command.footer(
      "Exit: 0 extended; 1 this id holds no lock.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock extend \"$id\" --ttl 10m");
  command.action([&context, options] { return extend(context, *options); });
}

void add_lock_owns(Command lock, Context& context) {
  auto command = lock.add_command("owns", "Check whether a lock id holds a lock");
  auto options = std::make_shared<LockOfId>();
  command.add_option("KEY", options->key, "Lock key").required();
  options->id.add_to(command);
  command.footer(
      "For diagnosis only: the answer may be outdated a moment later, so do not use it as a guard. To work\n"
      "only while the lock is held, use `lock extend`, which proves it, or `holdfast run`.\n"
      "\n"
      "Exit: 0 it holds the lock; 1 it does not: released, expired, or the id of another lock.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock owns deploy \"$id\" || echo 'lock lost'");
  command.action([&context, options] { return owns(context, *options); });
}

}  // namespace

void LockIdArgument::add_to(Command command, const std::string& names) {
  command.add_option(names, id, "Lock id printed by `lock acquire`; - reads it from standard input");
  command
      .add_option("--id-file FILE", file,
                  "Read the lock id from this file (arguments are visible to all users in `ps`)")
      .not_empty();
}

LockId LockIdArgument::read() const {
  if (id && file) throw UsageError("--id-file: cannot be combined with an ID argument");
  if (!given()) throw UsageError("ID is required: pass the lock id, - for standard input, or --id-file FILE");
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
      "  holdfast lock break deploy --reason 'its machine is down'");
  add_lock_acquire(lock, context);
  add_lock_release(lock, context);
  add_lock_extend(lock, context);
  add_lock_show(lock, context);
  add_lock_owns(lock, context);
  add_lock_list(lock, context);
  add_lock_break(lock, context);
}

}  // namespace holdfast::cli
