#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "duration.hpp"
#include "exit_codes.hpp"
#include "output.hpp"

namespace holdfast::cli {
namespace {

int list(const Context& context, bool raw) {
  Holdfast holdfast = open(context.url_or_default());
  std::vector<std::vector<std::string>> rows{
      {"KEY", "FENCE", "LEFT", "ACQUIRED", raw ? "LOCK ID" : "LOCK ID HASH"}};
  ListRequest request;
  do {
    const auto page = holdfast.locks().list(request);
    for (const auto& record : page.locks) {
      const auto info = sanitised(record);
      if (context.json) {
        auto object = to_json(info);
        object["key"] = record.key.str();
        if (raw) object["lockId"] = record.id.str();
        print_json(object);
      } else {
        rows.push_back({printable(record.key.str()), info.fence.to_string(),
                        describe(time_until(info.expires_at_ms)), iso_time(info.acquired_at_ms),
                        raw ? std::string(record.id.str()) : info.lock_id_hash});
      }
    }
    request.cursor = page.cursor;
  } while (!request.cursor.empty());
  if (rows.size() > 1) print_table(rows);
  return exit_ok;
}

}  // namespace

void add_lock_list(Command lock, Context& context) {
  auto command = lock.add_command("list", "List the locks that are held");
  auto raw = std::make_shared<bool>(false);
  command.add_flag("--raw", *raw, "Show the lock ids themselves, not their hashes");
  command.footer(
      "Keys are shown as they are. With --json one object per line and lock.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock list\n"
      "  holdfast --json lock list | jq -r .key");
  command.action([&context, raw] { return list(context, *raw); });
}

}  // namespace holdfast::cli
