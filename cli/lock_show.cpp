#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "lock_id_argument.hpp"
#include "lock_output.hpp"
#include "output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {
namespace {

struct ShowOptions {
  std::optional<std::string> key;
  LockIdArgument id;
  bool raw = false;
};

void print(const Context& context, const LockRecord& record, bool raw) {
  const auto info = sanitised(record);
  if (context.json) {
    auto object = to_json(info);
    if (raw) {
      object["key"] = record.key.str();
      object["lockId"] = record.id.str();
    }
    print_json(object);
    return;
  }
  auto fields = fields_of(info);
  if (raw) {
    fields[0] = {"key", record.key.str()};
    fields[1] = {"lockId", std::string(record.id.str())};
  }
  print_fields(fields);
}

int show(const Context& context, const ShowOptions& options) {
  if (options.key.has_value() == options.id.given()) {
    throw UsageError("lock show: give either a KEY or --id ID");
  }
  std::string what;
  std::optional<LockRecord> record;
  if (options.id.given()) {
    const auto id = options.id.read();
    what = "that lock id holds no lock";
    record = open(context.url_or_default()).locks().get_by_id_raw(id.str());
  } else {
    const auto key = LockKey::parse(*options.key).value_or_throw();
    what = "nobody holds " + quote(key.str());
    record = open(context.url_or_default()).locks().get_by_key_raw(key.str());
  }
  if (record) {
    print(context, *record, options.raw);
    return exit_ok;
  }
  if (context.json) {
    print_json({{"ok", false}, {"reason", "not-found"}});
  } else {
    complain(what);
  }
  return exit_not_held;
}

}  // namespace

void add_lock_show(Command lock, Context& context) {
  auto command = lock.add_command("show", "Show whether a lock is held, with which fence, and until when");
  auto options = std::make_shared<ShowOptions>();
  command.add_option("KEY", options->key, "The lock's name");
  options->id.add_to(command, "--id");
  command.add_flag("--raw", options->raw, "Show key and lock id themselves, not their hashes");
  command.footer(
      "Exit: 0 held; 1 nobody holds it. With --raw the lock id is shown: whoever knows it can release\n"
      "the lock.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock show deploy\n"
      "  holdfast --json lock show --id \"$id\" --raw");
  command.action([&context, options] { return show(context, *options); });
}

}  // namespace holdfast::cli
