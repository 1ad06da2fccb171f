// Every key that a script touches is declared by its call, and all of them are in one slot of a cluster: the
// server's own MONITOR says what scripts touch. The scripts of queues choose records themselves, so these are
// not declared, but in the slot of the declared keys.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "embedded/scripts.hpp"
#include "engine/redis/conn/slot.hpp"
#include "engine/redis/script.hpp"
#include "engine/redis/wire/errors.hpp"
#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using redis::Release;
using Words = std::vector<std::string>;
namespace scripts = redis::embedded;

/// The words of a line of MONITOR: everything in quotes. Valkey writes quotes within a word as they are, so
/// that only one before a space and the next word, or before the end, ends it.
Words monitored_words(std::string_view line) {
  Words words;
  for (std::size_t at = line.find('"'); at != std::string_view::npos; at = line.find('"', at + 1)) {
    auto& word = words.emplace_back();
    const auto ends_at = [&](std::size_t i) {
      return line.at(i) == '"' && (i + 1 == line.size() || line.substr(i + 1, 2) == " \"");
    };
    for (++at; !ends_at(at); ++at) {
      if (line[at] != '\\') {
        word += line[at];
        continue;
      }
      const char kind = line.at(++at);
      static const std::map<char, char> plain{
          {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'a', '\a'}, {'b', '\b'}};
      if (kind == 'x') {
        word += static_cast<char>(std::stoi(std::string(line.substr(at + 1, 2)), nullptr, 16));
        at += 2;
      } else {
        // Neither does Valkey escape a backslash: one before another character is the word's own.
        if (!plain.contains(kind) && kind != '"' && kind != '\\') word += '\\';
        word += plain.contains(kind) ? plain.at(kind) : kind;
      }
    }
  }
  return words;
}

/// A script as `monitored_words` reads it from Valkey's MONITOR, which writes a line break as the script's
/// own `\n` is written.
std::string as_valkey_shows_it(std::string_view script) {
  std::string line = "\"";
  for (const char c : script) line += c == '\n' ? "\\n" : std::string(1, c);
  return monitored_words(line + "\"").front();
}

/// The names of all scripts by the SHA-1 of their text, as it is and as Valkey shows it.
const std::map<std::string, std::string>& script_names() {
  static const auto names = [] {
    std::map<std::string, std::string> by_sha;
    for (const auto& [name, text] : std::initializer_list<std::pair<std::string, std::string_view>>{
             {"acquire", scripts::acquire_lua},
             {"release", scripts::release_lua},
             {"release_for_good", scripts::release_for_good_lua},
             {"release_evidence", scripts::release_evidence_lua},
             {"extend", scripts::extend_lua},
             {"is_locked", scripts::is_locked_lua},
             {"lookup", scripts::lookup_lua},
             {"break", scripts::break_lua},
             {"cleanup", scripts::cleanup_lua},
             {"records", scripts::records_lua},
             {"native_open", scripts::native_open_lua},
             {"native_acquire", scripts::native_acquire_lua},
             {"native_release", scripts::native_release_lua},
             {"native_release_proven", scripts::native_release_proven_lua},
             {"native_release_for_good", scripts::native_release_for_good_lua},
             {"native_release_evidence", scripts::native_release_evidence_lua},
             {"native_extend", scripts::native_extend_lua},
             {"native_lookup", scripts::native_lookup_lua},
             {"native_break", scripts::native_break_lua},
             {"native_cleanup", scripts::native_cleanup_lua},
             {"native_records", scripts::native_records_lua},
             {"task_create", scripts::task_create_lua},
             {"task_get", scripts::task_get_lua},
             {"task_put", scripts::task_put_lua},
             {"task_put_if_version", scripts::task_put_if_version_lua},
             {"task_bind", scripts::task_bind_lua},
             {"task_rebind", scripts::task_rebind_lua},
             {"task_remove", scripts::task_remove_lua},
             {"task_members", scripts::task_members_lua},
             {"task_list", scripts::task_list_lua},
             {"output_append", scripts::output_append_lua},
             {"output_read", scripts::output_read_lua},
             {"queue_create", scripts::queue_create_lua},
             {"queue_claim", scripts::queue_claim_lua},
             {"queue_claim_task", scripts::queue_claim_task_lua},
             {"queue_renew", scripts::queue_renew_lua},
             {"queue_end", scripts::queue_end_lua},
             {"queue_put", scripts::queue_put_lua},
             {"queue_count", scripts::queue_count_lua},
         }) {
      by_sha[redis::Script(text).sha1] = name;
      by_sha[redis::Script(as_valkey_shows_it(text)).sha1] = name;
    }
    return by_sha;
  }();
  return names;
}

class RedisDeclaredKeys : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    raw.emplace(server->unix_socket());
    monitor.emplace(server->unix_socket());
    monitor->text({"MONITOR"});
  }

  /// Checks all that was sent to the server so far. Returns the names of the scripts that ran.
  std::set<std::string> check() {
    raw->text({"ECHO", "until here"});
    std::set<std::string> ran;
    std::string script;
    std::set<std::string> declared;
    std::size_t touched = 0;
    while (true) {
      const auto reply = monitor->receive();
      const std::string line(redis::text_of(*reply));
      const auto words = monitored_words(line);
      if (words == Words{"ECHO", "until here"}) {
        EXPECT_GT(touched, ran.size()) << "the keys that scripts touch are not seen";
        return ran;
      }
      if (line.find(" lua] ") != std::string::npos) {
        for (const auto& key : keys_of(words)) {
          ++touched;
          if (script.starts_with("queue_")) {
            EXPECT_EQ(redis::slot_of(key), redis::slot_of(*declared.begin())) << script << ": " << line;
          } else {
            EXPECT_TRUE(declared.contains(key)) << script << " touches " << key << ": " << line;
          }
        }
      } else if (words.at(0) == "EVAL" || words.at(0) == "EVALSHA") {
        const auto sha = words[0] == "EVAL" ? redis::Script(words.at(1)).sha1 : words.at(1);
        const auto name = script_names().find(sha);
        script = name == script_names().end() ? "an unknown script" : name->second;
        EXPECT_NE(name, script_names().end()) << line;
        ran.insert(script);
        const auto first = words.begin() + 3;
        declared = {first, first + std::stoi(words.at(2))};
        if (script == "native_records") continue;  // for a cluster, LockListing asks for each slot
        for (const auto& key : declared) {
          EXPECT_EQ(redis::slot_of(key), redis::slot_of(*first)) << script << ": " << key;
        }
      }
    }
  }

  /// According to the server.
  const Words& keys_of(const Words& command) {
    const auto [known, is_new] = known_keys_.try_emplace(command);
    if (!is_new) return known->second;
    Words ask{"COMMAND", "GETKEYS"};
    ask.insert(ask.end(), command.begin(), command.end());
    const auto reply = asking_->command(ask);
    if (redis::is_error(*reply)) {
      EXPECT_TRUE(command[0] == "TIME" || command[0] == "PUBLISH") << command[0] << redis::text_of(*reply);
    } else {
      for (const auto* key : redis::elements_of(*reply)) known->second.emplace_back(redis::text_of(*key));
    }
    return known->second;
  }

  void use_locks(RedisLayout how);
  void use_tasks(RedisLayout how);
  void use_queues(RedisLayout how);

  std::optional<RedisServer> server;
  std::optional<RawRedis> raw, monitor;

 private:
  RedisServer other_;  // not monitored
  std::optional<RawRedis> asking_ = other_.raw();
  std::map<Words, Words> known_keys_;
};

void RedisDeclaredKeys::use_locks(RedisLayout how) {
  const bool documented = how == RedisLayout::documented;
  RedisLocks locks(server->unix_socket(), documented ? "{d}" : "n", how);
  locks.ask(locks.locks->read_store_id("an id"));
  const auto id = LockId::generate(), other = LockId::generate(), third = LockId::generate();
  // A lock that should have expired long ago: its keys have lost their TTL.
  const auto expire = [&](const std::string& name, const LockId& owner) {
    if (!documented) return;
    auto record = raw->text({"GET", locks.lock_key(name)});
    record.replace(record.find("\"expiresAtMs\":") + 14, 13, "1000000000000");
    raw->text({"SET", locks.lock_key(name), record});
    raw->text({"PERSIST", locks.index_key(owner)});
  };
  const CounterLifetime lifetime{.until = from_ms(4'000'000'000'000)};

  ASSERT_TRUE(locks.acquire(id, "k"));
  ASSERT_TRUE(locks.acquire(id, "k"));
  EXPECT_FALSE(locks.acquire(other, "k"));
  EXPECT_EQ(static_cast<bool>(locks.try_acquire(id, "held elsewhere")), !documented);
  ASSERT_TRUE(locks.acquire(other, "counter ends", 60s, lifetime));
  EXPECT_TRUE(locks.try_is_locked("k").value_or_throw());
  EXPECT_TRUE(locks.try_lookup("k").value_or_throw());
  EXPECT_EQ(locks.page({}, 10).locks.size(), documented ? 2U : 3U);
  EXPECT_TRUE(locks.try_extend(id, "k"));
  if (documented) {
    EXPECT_TRUE(locks.try_lookup(id).value_or_throw());
    EXPECT_TRUE(std::holds_alternative<Extended>(locks.try_extend(id).value_or_throw()));
    EXPECT_EQ(locks.release(id, "held by nobody", Release::for_good), Absence::not_found);
    raw->text({"SET", locks.index_key(id), "k"});  // as SyncGuard 1.0
    EXPECT_TRUE(locks.try_lookup(id).value_or_throw());
    EXPECT_FALSE(locks.release(id));
  } else {
    EXPECT_FALSE(locks.release(id, "k"));
  }
  EXPECT_EQ(locks.release(id, "k", Release::for_good), Absence::not_found);
  EXPECT_TRUE(locks.evidence(id, "k"));
  EXPECT_FALSE(locks.release(other, "counter ends", Release::by_force));
  ASSERT_TRUE(locks.acquire(third, "k"));
  ASSERT_TRUE(
      locks.ask(locks.locks->release({.id = third, .key = key("k")}, {}, Release::proven, redis::By::text)
                    .value_or_throw()));

  for (const auto* name : {"left behind", "cleaned up", "extended late"}) {
    const auto former = LockId::generate(), next = LockId::generate();
    ASSERT_TRUE(locks.acquire(former, name));
    expire(name, former);
    if (name == std::string("left behind")) {
      EXPECT_EQ(static_cast<bool>(locks.acquire(next, name)), documented);
    } else if (name == std::string("cleaned up")) {
      EXPECT_EQ(locks.cleanup(name), documented ? 1 : 0);
    }
    if (!documented) continue;
    if (name == std::string("extended late")) {
      EXPECT_EQ(std::get<Absence>(locks.try_extend(former).value_or_throw()), Absence::expired);
    }
    EXPECT_EQ(raw->integer({"EXISTS", locks.index_key(former)}), 0) << name;
  }
  if (documented) {
    ASSERT_TRUE(locks.acquire(LockId::generate(), "more"));
    const auto broken = LockId::generate();
    ASSERT_TRUE(locks.acquire(broken, "broken by id"));
    EXPECT_FALSE(locks.release(broken, {}, Release::by_force));
    const auto given_up = LockId::generate();
    ASSERT_TRUE(locks.acquire(given_up, "given up"));
    EXPECT_FALSE(locks.release(given_up, {}, Release::for_good));
  }
}

void RedisDeclaredKeys::use_tasks(RedisLayout how) {
  auto options = server->unix_socket();
  options.layout = how;
  options.task_prefix = how == RedisLayout::documented ? "{d}" : "n";
  const auto backend = make_redis_storage_backend(options).value_or_throw();
  const auto name = how == RedisLayout::documented
                        ? redis::StorageLayout::make("{d}", 0, how).value_or_throw()
                        : redis::StorageLayout::make("n", 0, how).value_or_throw();
  const auto create_one = [&](const std::string& task) {
    return outcome(*backend,
                   CreateRecord{.key = record_key("o:" + task), .data = record_data("{}"), .quota = 3});
  };
  for (const auto* task : {"a", "b", "c"}) ASSERT_TRUE(std::holds_alternative<Written>(create_one(task)));
  EXPECT_EQ(std::get<QuotaReached>(create_one("d")).records, 3U);
  raw->text({"DEL", name.record(record_key("o:b"))});
  EXPECT_TRUE(std::holds_alternative<Written>(create_one("d")));
  put(*backend, "o:a");
  outcome(*backend, PutRecord{.key = record_key("o:a"),
                              .data = record_data("{}"),
                              .expected = ExpectedVersion{.version = 2, .incarnation = {}}});
  outcome(*backend, BindRecord{.key = record_key("o:a"), .fence = token(1)});
  AppendOutput output{.key = record_key("o:a"), .fence = token(1)};
  output.pieces[0].bytes = "out";
  EXPECT_TRUE(std::holds_alternative<OutputRun>(outcome(*backend, std::move(output))));
  EXPECT_TRUE(outcome(*backend, ReadOutput{.key = record_key("o:a")}));
  outcome(*backend, RebindRecord{.key = record_key("o:a")});
  EXPECT_TRUE(get(*backend, "o:a"));
  raw->text({"DEL", name.record(record_key("o:c"))});
  EXPECT_EQ(tasks_of(*backend, "o", ListOrder::newest_first, 1), (Words{"d", "a"}));
  EXPECT_EQ(raw->integer({"ZCARD", name.index("o")}), 2);
  EXPECT_TRUE(remove(*backend, "o:a"));
}

void RedisDeclaredKeys::use_queues(RedisLayout how) {
  auto options = server->unix_socket();
  options.layout = how;
  options.task_prefix = how == RedisLayout::documented ? "{q}" : "q";
  const auto backend = make_redis_storage_backend(options).value_or_throw();
  const auto add = [&](const std::string& task, std::optional<WallTime> not_before = {}) {
    const auto added = outcome(*backend, CreateRecord{.key = record_key("o:" + task),
                                                      .data = record_data("{}"),
                                                      .queue = QueueTerms{.not_before = not_before}});
    EXPECT_TRUE(std::holds_alternative<Written>(added)) << task;
  };
  for (const auto* task : {"a", "b", "c"}) add(task);
  add("later", from_ms(4'000'000'000'000));
  const ClaimTerms terms{.worker = "w", .lease = 60s};
  auto claimed = outcome(*backend, ClaimNext{.owner = "o", .terms = terms}).claimed;
  ASSERT_EQ(claimed.size(), 1U);
  const auto& first = claimed.front();
  const auto renewed = outcome(*backend, RenewLeases{.owner = "o",
                                                     .leases = {{.task = std::string(first.key.task()),
                                                                 .incarnation = first.record.incarnation,
                                                                 .fence = first.record.bound_to->fence}},
                                                     .lease = 60s});
  EXPECT_TRUE(renewed.at(0).is_held);
  const auto ended =
      outcome(*backend, EndLease{.key = first.key,
                                 .incarnation = first.record.incarnation,
                                 .token = *first.record.bound_to,
                                 .write = std::pair(record_data("{}"),
                                                    ExpectedVersion{.version = first.record.version,
                                                                    .incarnation = first.record.incarnation}),
                                 .then = terms});
  ASSERT_TRUE(ended.next);
  EXPECT_EQ(ended.next->claimed.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<ClaimedRecord>(
      outcome(*backend, ClaimRecord{.key = record_key("o:later"), .terms = terms})));
  EXPECT_EQ(outcome(*backend, CountQueue{.owner = "o"}).ready, 1U);
  EXPECT_TRUE(std::holds_alternative<Written>(outcome(
      *backend, PutRecord{.key = record_key("o:c"), .data = record_data("{}"), .leaves_queue = true})));
}

TEST_F(RedisDeclaredKeys, AreAllThatAScriptTouchesAndInOneSlot) {
  std::set<std::string> ran;
  for (const auto how : {RedisLayout::documented, RedisLayout::native}) {
    use_locks(how);
    use_tasks(how);
    use_queues(how);
    if (HasFatalFailure()) return;
    ran.merge(check());
  }
  for (const auto& command : scripts::script_commands) {
    EXPECT_TRUE(ran.contains(std::string(command.script))) << command.script << " is not tested here";
  }
}

}  // namespace
}  // namespace holdfast::test
