#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "lock_id_argument.hpp"
#include "output.hpp"

namespace holdfast::cli {

void add_lock_release(Command lock, Context& context) {
  auto command = lock.add_command("release", "Release a lock by its id");
  auto id = std::make_shared<LockIdArgument>();
  id->add_to(command);
  command.footer(
      "Exit: 0 released; 1 that id holds nothing (any more).\n"
      "\n"
      "Examples:\n"
      "  holdfast lock release \"$id\"\n"
      "  holdfast lock release - <<<\"$id\"                 where others must not see it in `ps`\n"
      "  holdfast lock release --id-file deploy.lock");
  command.action([&context, id] {
    const auto checked = id->read();
    const bool released = open(context.url_or_default()).locks().release(checked.str());
    if (context.json) {
      print_json(released ? nlohmann::ordered_json{{"ok", true}}
                          : nlohmann::ordered_json{{"ok", false}, {"reason", "not-found"}});
    } else if (!released) {
      complain("that lock id holds no lock: it was released before or has expired");
    }
    return released ? exit_ok : exit_not_held;
  });
}

}  // namespace holdfast::cli
