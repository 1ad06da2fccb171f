#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "duration.hpp"
#include "exit_codes.hpp"
#include "lock_id_argument.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

struct ExtendOptions {
  LockIdArgument id;
  std::string ttl;
};

int extend(const Context& context, const ExtendOptions& options) {
  const auto id = options.id.read();
  const auto ttl = Ttl::of(parse_positive_duration("--ttl", options.ttl)).value_or_throw();
  const auto expires = open(context.url_or_default()).locks().extend(id.str(), ttl.length());
  if (!expires) {
    if (context.json) {
      print_json({{"ok", false}, {"reason", "not-found"}});
    } else {
      complain("that lock id holds no lock: it was released or has expired, and is not revived");
    }
    return exit_not_held;
  }
  if (context.json) {
    print_json({{"ok", true}, {"expiresAtMs", *expires}});
  } else {
    print_fields({{"expires", iso_time(*expires) + " (in " + describe(time_until(*expires)) + ")"}});
  }
  return exit_ok;
}

}  // namespace

void add_lock_extend(Command lock, Context& context) {
  auto command = lock.add_command("extend", "Let a lock last for a ttl from now on");
  auto options = std::make_shared<ExtendOptions>();
  options->id.add_to(command);
  command.add_option("--ttl", options->ttl, "From now on, in place of what was left")
      .value_name("DURATION")
      .required();
  command.footer(
      "Exit: 0 extended; 1 that id holds nothing (any more).\n"
      "\n"
      "Examples:\n"
      "  holdfast lock extend \"$id\" --ttl 10m");
  command.action([&context, options] { return extend(context, *options); });
}

}  // namespace holdfast::cli
