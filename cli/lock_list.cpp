#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "duration.hpp"
#include "exit_codes.hpp"
#include "lock_output.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

int list(const Context& context, bool raw) {
  Holdfast holdfast = open(context.url_or_default());
  LongTable table({"KEY", "FENCE", "LEFT", "ACQUIRED", raw ? "LOCK ID" : "LOCK ID HASH"});
  // On Redis a page costs a scan of all keys, so let it be a large one.
  std::string cursor;
  bool any = false;
  std::size_t of_syncguard_1 = 0;
  do {
    const auto page = holdfast.locks().list_raw({.cursor = cursor, .limit = max_list_limit});
    any = any || !page.locks.empty();
    for (const auto& record : page.locks) {
      const auto info = sanitised(record);
      if (is_of_syncguard_1(info)) ++of_syncguard_1;
      if (context.json) {
        auto object = to_json(info);
        object["key"] = record.key.str();
        if (raw) object["lockId"] = record.id.str();
        print_json(object);
      } else {
        table.add({printable(record.key.str()), info.fence.to_string(),
                   describe(time_until(info.expires_at_ms)), iso_time(info.acquired_at_ms),
                   raw ? std::string(record.id.str()) : info.lock_id_hash});
      }
    }
    cursor = page.cursor;
  } while (!cursor.empty());
  table.finish();
  if (!any && !context.json) complain("nobody holds a lock");
  if (of_syncguard_1 > 0 && !context.json) {
    complain(std::to_string(of_syncguard_1) +
             " of these are held by SyncGuard 1.0, which stores fences with 19 digits; see `lock show`");
  }
  return exit_ok;
}

}  // namespace

void add_lock_list(Command lock, Context& context) {
  auto command = lock.add_command("list", "List the locks that are held");
  auto raw = std::make_shared<bool>(false);
  command.add_flag("--raw", *raw, "Show the lock ids themselves, not their hashes");
  command.footer(
      "An operator's view of everybody's locks. Keys are shown as they are; lock ids, which are what it "
      "takes\n"
      "to release a lock, only with --raw. Locks that are taken or freed meanwhile may or may not be "
      "listed.\n"
      "A Redis is asked in small steps, which do not hold up its other users. With --json one object per\n"
      "line and lock.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock list\n"
      "  holdfast --json lock list | jq -r .key\n"
      "  holdfast --json lock list | jq -r 'select(.acquiredAtMs < (now - 86400) * 1000) | .key'");
  command.action([&context, raw] { return list(context, *raw); });
}

}  // namespace holdfast::cli
