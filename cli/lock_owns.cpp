#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "lock_id_argument.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

struct OwnsOptions {
  std::string key;
  LockIdArgument id;
};

int owns(const Context& context, const OwnsOptions& options) {
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

}  // namespace

void add_lock_owns(Command lock, Context& context) {
  auto command = lock.add_command("owns", "Tell whether a lock id holds that very lock");
  auto options = std::make_shared<OwnsOptions>();
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

}  // namespace holdfast::cli
