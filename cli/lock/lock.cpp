#include "lock/lock.hpp"

#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "arguments/lock_id.hpp"
#include "arguments/values.hpp"
#include "terminal/exit_codes.hpp"

namespace holdfast::cli {
namespace {

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
    print_json({{"ok", true}, {"expiresAtMs", *expires}});
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
