#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "output.hpp"

namespace holdfast::cli {

void add_lock_release(Command lock, Context& context) {
  auto command = lock.add_command("release", "Release a lock by its id");
  auto id = std::make_shared<std::string>();
  command.add_option("ID", *id, "The lock id that `lock acquire` printed").required();
  command.footer(
      "Exit: 0 released; 1 that id holds nothing (any more).\n"
      "\n"
      "Examples:\n"
      "  holdfast lock release \"$id\"");
  command.action([&context, id] {
    const auto checked = LockId::parse(*id).value_or_throw();
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
