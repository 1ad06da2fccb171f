#include <holdfast/holdfast.hpp>
#include <nlohmann/json.hpp>
#include <tuple>

#include "arguments/values.hpp"
#include "lock/lock.hpp"
#include "rpc/json/records.hpp"
#include "terminal/exit_codes.hpp"

namespace holdfast::cli {
namespace {

/// Whether a SyncGuard 1 holds it: exclusion is the same, but its fences do not compare as text with others.
bool is_of_syncguard_1(const LockInfo& info) noexcept {
  return info.fence_digits != LockInfo{}.fence_digits;
}

struct ShowOptions {
  std::optional<std::string> key;
  LockIdArgument id;
  bool raw = false;
};

using Waiters = std::optional<std::uint32_t>;

nlohmann::ordered_json as_json(const LockInfo& info, Waiters waiters) {
  auto object = rpc::to_json(info);
  object["waiters"] = waiters ? nlohmann::ordered_json(*waiters) : nlohmann::ordered_json();
  return object;
}

std::string as_text(Waiters waiters, std::string_view unknown) {
  return waiters ? std::to_string(*waiters) : std::string(unknown);
}

/// `with_key`: the user knows the key, or may see it.
void print_lock(const Context& context, const LockRecord& record, Waiters waiters, bool with_key, bool raw) {
  const auto info = sanitised(record);
  if (context.json) {
    auto object = as_json(info, waiters);
    if (with_key) object["key"] = record.key.str();
    if (raw) object["lockId"] = record.id.str();
    print_json(object);
    return;
  }
  auto fields = fields_of(info);
  if (with_key) fields[0] = {"key", record.key.str()};
  if (raw) fields[1] = {"lockId", std::string(record.id.str())};
  fields.emplace_back("waiters", as_text(waiters, "unknown"));
  print_fields(fields);
}

int show(const Context& context, const ShowOptions& options) {
  if (options.key.has_value() == options.id.given()) {
    throw UsageError("lock show: pass either KEY or --id ID");
  }
  const auto read_by = [&](const auto& read) -> std::pair<std::optional<LockRecord>, Waiters> {
    Holdfast holdfast = open_store(context);
    auto record = read(holdfast.locks());
    return {record, record ? holdfast.locks().count_waiters({&record->key, 1}).at(0) : Waiters()};
  };
  std::string what;
  std::optional<LockRecord> record;
  Waiters waiters;
  if (options.id.given()) {
    const auto id = options.id.read();
    what = "this lock id holds no lock";
    std::tie(record, waiters) = read_by([&](const Locks& locks) { return locks.get_by_id_raw(id.str()); });
  } else {
    const auto key = LockKey::parse(*options.key).value_or_throw();
    what = named_key(key.str()) + " is not held";
    std::tie(record, waiters) = read_by([&](const Locks& locks) { return locks.get_by_key_raw(key); });
  }
  if (record) {
    print_lock(context, *record, waiters, options.raw || options.key, options.raw);
    return exit_ok;
  }
  print_json_or_complain(context.json, {{"ok", false}, {"reason", "not-found"}}, what);
  return exit_not_held;
}

int list(const Context& context, bool raw) {
  Holdfast holdfast = open_store(context);
  LongTable table(
      {"KEY", "FENCE", "LEFT", "HOLDER", "WAITERS", "ACQUIRED", raw ? "LOCK ID" : "LOCK ID HASH"});
  // Large pages: on Redis each costs a scan of all keys.
  std::string cursor;
  bool any = false;
  std::size_t of_syncguard_1 = 0;
  do {
    const auto page = holdfast.locks().list_raw({.cursor = cursor, .limit = max_list_limit});
    any = any || !page.locks.empty();
    std::vector<LockKey> keys;
    keys.reserve(page.locks.size());
    for (const auto& record : page.locks) keys.push_back(record.key);
    const auto waiters = holdfast.locks().count_waiters(keys);
    for (std::size_t i = 0; i < page.locks.size(); ++i) {
      const auto& record = page.locks[i];
      const auto info = sanitised(record);
      if (is_of_syncguard_1(info)) ++of_syncguard_1;
      if (context.json) {
        auto object = as_json(info, waiters[i]);
        object["key"] = record.key.str();
        if (raw) object["lockId"] = record.id.str();
        print_json(object);
      } else {
        table.add({printable(record.key.str()), info.fence.to_string(), describe(time_until(info.expires_at)),
                   info.holder ? printable(info.holder->str()) : "-", as_text(waiters[i], "-"),
                   iso_time(info.acquired_at), raw ? std::string(record.id.str()) : info.lock_id_hash});
      }
    }
    cursor = page.cursor;
  } while (!cursor.empty());
  table.finish();
  if (!any && !context.json) complain("no lock is held");
  if (of_syncguard_1 > 0 && !context.json) {
    complain(std::to_string(of_syncguard_1) +
             " of these are held by SyncGuard 1.0, which stores fences with 19 digits; see `lock show`");
  }
  return exit_ok;
}

}  // namespace

Fields fields_of(const LockInfo& info) {
  Fields fields{{"keyHash", info.key_hash},
                {"lockIdHash", info.lock_id_hash},
                {"fence", info.fence.to_string()},
                {"acquired", iso_time(info.acquired_at)},
                {"expires", expiry(info.expires_at)}};
  if (info.holder) fields.emplace_back("holder", info.holder->str());
  if (is_of_syncguard_1(info))
    fields.emplace_back("written by", "SyncGuard 1.0, which writes fences of 19 digits");
  return fields;
}

void add_lock_show(Command lock, Context& context) {
  auto command = lock.add_command("show", "Show whether a lock is held, by whom, its fence and its expiry");
  auto options = std::make_shared<ShowOptions>();
  command.add_option("KEY", options->key, "Lock key");
  options->id.add_to(command, "--id");
  command.add_flag("--raw", options->raw,
                   "Show the lock id, and the key of a lock found by --id, not their hashes");
  command.footer(
      "Exit: 0 held; 1 not held. --raw shows the lock id: it is enough to release the lock, so treat it as "
      "a\n"
      "password.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock show deploy\n"
      "  holdfast --json lock show --id \"$id\" --raw");
  command.action([&context, options] { return show(context, *options); });
}

void add_lock_list(Command lock, Context& context) {
  auto command = lock.add_command("list", "List the locks that are held");
  auto raw = std::make_shared<bool>(false);
  command.add_flag("--raw", *raw, "Show the lock ids, not their hashes");
  command.footer(
      "Lists all locks of the store, with their keys in plain text. HOLDER is the label that the holder "
      "chose:\n"
      "information for people, which is not verified. WAITERS is the number of processes that wait for the "
      "lock,\n"
      "as far as the store knows it. A lock id is enough to release its "
      "lock:\n"
      "ids are shown only with --raw. A lock that is acquired or released during the listing may or may not "
      "appear.\n"
      "A Redis server is scanned in small steps that do not block its other clients. With --json: one "
      "object\n"
      "per line.\n"
      "\n"
      "Examples:\n"
      "  holdfast lock list\n"
      "  holdfast --json lock list | jq -r .key\n"
      "  holdfast --json lock list | jq -r 'select(.acquiredAtMs < (now - 86400) * 1000) | .key'");
  command.action([&context, raw] { return list(context, *raw); });
}

}  // namespace holdfast::cli
