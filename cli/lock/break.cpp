#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "arguments/values.hpp"
#include "lock/lock.hpp"
#include "rpc/json/records.hpp"
#include "terminal/exit_codes.hpp"

namespace holdfast::cli {
namespace {

struct BreakOptions {
  std::string key;
  std::string reason;
  std::optional<std::string> fence;
  bool yes = false;
};

/// The reason is logged: a line break in it could forge another message.
void check_reason(const std::string& reason) {
  if (reason.find_first_not_of(' ') == std::string::npos) {
    throw UsageError("--reason: is empty; say why the lock is taken from its holder");
  }
  if (printable(reason) != reason) {
    throw UsageError("--reason: must be one line of text, without control characters");
  }
}

int not_broken(const Context& context, const std::string& reason, const std::string& message) {
  print_json_or_complain(context.json, {{"ok", false}, {"reason", reason}}, message);
  return exit_not_held;
}

int not_held_so(const Context& context, const std::string& key, const std::optional<LockInfo>& held) {
  if (!held) return not_broken(context, "not-found", "nobody holds " + quote(key));
  return not_broken(context, "other-fence",
                    quote(key) + " is another's lock now, with the fence " + held->fence.to_string() +
                        "; nothing was done");
}

/// Shows the lock and asks.
bool confirm_break(const std::string& key, const LockInfo& held) {
  complain(quote(key) + " is held since " + iso_time(held.acquired_at) + " with the fence " +
           held.fence.to_string() + "; lock id hash " + held.lock_id_hash);
  complain("it would end in " + describe(time_until(held.expires_at)) +
           " unless its holder renews it. Broken, it is free at once, and its holder may go on until it "
           "notices: only where fences are checked are its writes kept out");
  return confirm("Take it from its holder?");
}

int break_lock(const Context& context, const BreakOptions& options) {
  const auto key = LockKey::parse(options.key).value_or_throw().str();
  check_reason(options.reason);
  std::optional<Fence> only;
  if (options.fence) only = parse_fence("--fence", *options.fence);

  Holdfast holdfast = open(context.url_or_default());
  auto& locks = holdfast.locks();
  if (!options.yes && can_ask()) {
    const auto held = locks.get_by_key(key);
    if (!held || held->fence != only.value_or(held->fence)) {
      return not_held_so(context, key, held);
    }
    if (!confirm_break(key, *held)) return not_broken(context, "declined", "nothing was done");
    only = held->fence;  // answering takes time: the answer is about the lock that was shown
  }
  const auto broken =
      only ? locks.break_lock(key, options.reason, *only) : locks.break_lock(key, options.reason);
  if (!broken) return not_held_so(context, key, locks.get_by_key(key));
  if (context.json) {
    nlohmann::ordered_json object{{"ok", true}, {"key", key}};
    object.update(rpc::to_json(*broken));
    print_json(object);
  } else {
    auto fields = fields_of(*broken);
    fields.front() = {"key", key};  // in place of its hash
    print_fields(fields);
  }
  return exit_ok;
}

}  // namespace

void add_lock_break(Command lock, Context& context) {
  auto command = lock.add_command("break", "Take a lock from its holder, for operators");
  auto options = std::make_shared<BreakOptions>();
  command.add_option("KEY", options->key, "The lock's name").required();
  command.add_option("--reason TEXT", options->reason, "Why: one line, for the log on stderr")
      .required()
      .not_empty();
  command.add_option("--fence FENCE", options->fence,
                     "Only if it is held with this fence, as `lock show` tells it, and not by another since");
  command.add_flag("-y,--yes", options->yes, "Do not ask, though there is a terminal");
  command.footer(
      "When a holder hangs or is cut off, and its ttl is too long to wait for. Whoever waits for the lock\n"
      "gets it at once. The old holder is not asked: its release and its next renewal find nothing; then a\n"
      "`holdfast run` ends its command (79), as after any loss. That may take a third of its ttl, and a\n"
      "process that hangs does not notice at all. Until then it believes in its lock, and goes on.\n"
      "\n"
      "What protects you is the fence. The counter is left alone, so the next holder's fence is higher, and\n"
      "whatever checks fences (tasks, fenced registers, your own store) refuses the old holder's writes.\n"
      "Where nothing checks them, stop the old holder first.\n"
      "\n"
      "On a terminal it shows who holds the lock and asks, unless --yes is given; what is broken then is\n"
      "the lock that was shown, not one that somebody took meanwhile. Elsewhere nobody could answer: there\n"
      "the --reason, which is not given by accident, is confirmation enough, and --fence makes sure that\n"
      "the lock is still the one the script looked at. The lock that was broken is printed, its ids hashed.\n"
      "\n"
      "Exit: 0 broken; 1 nothing was: nobody holds it, or not with that fence, or the answer was no.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock break deploy --reason 'web-3 is down, its runner with it'\n"
      "  holdfast lock break deploy --fence \"$(holdfast --json lock show deploy | jq -r .fence)\" \\\n"
      "    --reason 'nightly check: held for more than a day'");
  command.action([&context, options] { return break_lock(context, *options); });
}

}  // namespace holdfast::cli
