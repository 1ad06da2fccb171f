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
    throw UsageError("--reason: is empty; give the reason for breaking the lock");
  }
  if (printable(reason) != reason) {
    throw UsageError("--reason: must be one line of text without control characters");
  }
}

int not_broken(const Context& context, const std::string& reason, const std::string& message) {
  print_json_or_complain(context.json, {{"ok", false}, {"reason", reason}}, message);
  return exit_not_held;
}

int not_held_so(const Context& context, const std::string& key, const std::optional<LockInfo>& held) {
  if (!held) return not_broken(context, "not-found", named_key(key) + " is not held");
  return not_broken(
      context, "other-fence",
      named_key(key) + " is now held with the fence " + held->fence.to_string() + "; nothing was changed");
}

/// Writes the library's messages, which name keys by their hashes, with the key that the operator typed.
LogSink warnings_about(const std::string& key) {
  return [key, hashed = "with the key hash " + key_hash(key)](LogLevel level, std::string_view message) {
    if (level == LogLevel::debug) return;
    std::string text(message);
    const auto at = text.find(hashed);
    if (at != std::string::npos) text.replace(at, hashed.size(), named_key(key));
    const bool is_error = level == LogLevel::error;
    complain((is_error ? "error: " : "warning: ") + text,
             {.event = at != std::string::npos ? "lock_broken" : LogDetails{}.event,
              .level = is_error ? LogSeverity::error : LogSeverity::warning,
              .fields = {key_field(key)}});
  };
}

/// Shows the lock and asks.
bool confirm_break(const std::string& key, const LockInfo& held) {
  complain(named_key(key) + " has been held " +
           (held.holder ? "by " + printable(held.holder->str()) + " " : "") + "since " +
           iso_time(held.acquired_at) + " with the fence " + held.fence.to_string() + "; lock id hash " +
           held.lock_id_hash);
  complain("its lease expires in " + describe(time_until(held.expires_at)) +
           " unless the holder renews it. After the break the lock is free at once. The holder may continue "
           "until it notices: only fence checks reject its writes");
  return confirm("Break the lock?");
}

int break_lock(const Context& context, const BreakOptions& options) {
  const auto key = LockKey::parse(options.key).value_or_throw().str();
  check_reason(options.reason);
  std::optional<Fence> only;
  if (options.fence) only = parse_fence("--fence", *options.fence);

  Holdfast holdfast = open_store(context, {.log_sink = warnings_about(key)});
  auto& locks = holdfast.locks();
  if (!options.yes && can_ask()) {
    const auto held = locks.get_by_key(key);
    if (!held || held->fence != only.value_or(held->fence)) {
      return not_held_so(context, key, held);
    }
    if (!confirm_break(key, *held)) return not_broken(context, "declined", "nothing was changed");
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
  auto command = lock.add_command("break", "Break a lock: free it without its holder (for operators)");
  auto options = std::make_shared<BreakOptions>();
  command.add_option("KEY", options->key, "Lock key").required();
  command.add_option("--reason TEXT", options->reason, "Reason, one line, for the log on stderr")
      .required()
      .not_empty();
  command.add_option("--fence FENCE", options->fence,
                     "Break only if the lock is held with this fence (see `lock show`)");
  command.add_flag("-y,--yes", options->yes, "Do not ask, even on a terminal");
  command.footer(
      "For a holder that hangs or is cut off, with a ttl too long to wait for. The next waiter gets the "
      "lock\n"
      "at once. The old holder is not notified: its next renewal or release finds no lock, and `holdfast "
      "run`\n"
      "then stops its command (exit 79). That may take a third of its ttl, and a process that hangs never\n"
      "notices. Until then the old holder continues as if it held the lock.\n"
      "\n"
      "The fence protects you. The fence counter is kept, so the next holder's fence is higher, and every\n"
      "store that checks fences (tasks, fenced registers, your own) rejects the old holder's writes.\n"
      "If your store does not check fences, stop the old holder first.\n"
      "\n"
      "On a terminal the command shows the lock and asks, unless --yes is given. It breaks only the lock "
      "that\n"
      "it showed, not one acquired since. Without a terminal --reason is the confirmation; --fence makes "
      "sure\n"
      "that the lock is still the one the script looked at. The broken lock is printed, with hashed ids.\n"
      "\n"
      "Exit: 0 broken; 1 not broken: not held, held with another fence, or the answer was no.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock break deploy --reason 'web-3 is down, its runner with it'\n"
      "  holdfast lock break deploy --fence \"$(holdfast --json lock show deploy | jq -r .fence)\" \\\n"
      "    --reason 'nightly check: held for more than a day'");
  command.action([&context, options] { return break_lock(context, *options); });
}

}  // namespace holdfast::cli
