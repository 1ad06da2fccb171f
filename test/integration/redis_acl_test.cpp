// The rights of a Redis user: what `doctor --acl` prints is enough for everything and no more than that, and
// the doctor misses each of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <holdfast/doctor.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/redis.hpp>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "support/acl_user.hpp"
#include "support/begun_wait.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/paths.hpp"
#include "support/queue_calls.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using Findings = std::vector<Finding>;

std::string one_line(const Finding& finding) {
  return std::string(to_string(finding.severity)) + " " + finding.topic + ": " + finding.found + " [" +
         finding.advice + "]";
}

/// What the doctor says about a user's rights that is not good.
Findings missing(const RedisOptions& user) {
  auto findings = examine_redis(user).value_or_throw();
  for (const auto& finding : findings) EXPECT_EQ(one_line(finding).find("sesame"), std::string::npos);
  std::erase_if(findings, [](const Finding& finding) {
    return finding.topic != "rights" || finding.severity == Severity::ok;
  });
  return findings;
}

std::string all_lines(const Findings& findings) {
  std::string text;
  for (const auto& finding : findings) text += one_line(finding) + "\n";
  return text;
}

class RedisAclTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }

  /// The commands that were called since the last CONFIG RESETSTAT, by scripts too.
  [[nodiscard]] std::set<std::string> called() const {
    std::set<std::string> names;
    std::istringstream stats(server->raw().text({"INFO", "commandstats"}));
    const std::string start = "cmdstat_";
    for (std::string line; std::getline(stats, line);) {
      if (line.starts_with(start)) names.insert(line.substr(start.size(), line.find(':') - start.size()));
    }
    return names;
  }

  void use_locks(const RedisOptions& user);
  void use_locks_over_a_bad_line(RedisOptions user);
  static void wait_for_replicas(RedisOptions user);
  void meet_leftovers(RedisOptions user);
  void use_tasks(const RedisOptions& user);
  /// Makes a worker wait, and wakes it.
  static void use_queues(const RedisOptions& user);

  std::optional<RedisServer> server;
};

Locks locks_as(const RedisOptions& user) {
  return Locks(make_redis_lock_backend(user).value_or_throw());
}

/// There are none: the grant is taken back.
void RedisAclTest::wait_for_replicas(RedisOptions user) {
  user.min_replicas = 1;
  user.replica_timeout = std::chrono::milliseconds(1);
  const auto backend = make_redis_lock_backend(user).value_or_throw();
  EXPECT_FALSE(try_acquire(*backend, LockId::generate(), "replicated"));
}

void RedisAclTest::use_locks(const RedisOptions& user) {
  auto one = locks_as(user), other = locks_as(user);
  auto guard = one.lock("a");
  EXPECT_FALSE(other.try_lock("a"));
  EXPECT_TRUE(other.is_locked("a"));
  EXPECT_TRUE(other.get_by_key("a"));
  EXPECT_TRUE(other.get_by_id(guard.id().str()));
  EXPECT_TRUE(other.owns("a", guard.id().str()));
  EXPECT_EQ(other.list_raw().locks.size(), 1U);
  EXPECT_EQ(other.count_waiters(std::vector{key("a")}), WaiterCounts(1, 0U));
  EXPECT_TRUE(other.follow());
  EXPECT_TRUE(other.follow_grants());
  EXPECT_TRUE(guard.extend(10s));
  std::jthread waiter([&] { (void)other.lock("a", {.wait = 20s}); });
  EXPECT_TRUE(eventually([&] { return called().contains("subscribe"); }));
  guard.release();
  waiter.join();
  const auto detached = one.acquire("b");
  EXPECT_TRUE(one.extend(detached.id.str(), 10s));
  EXPECT_TRUE(other.break_lock("b", "a test"));
  EXPECT_FALSE(one.release(detached.id.str()));

  auto replicated = user;
  replicated.min_replicas = 1;
  replicated.replica_timeout = 1ms;
  const auto unacknowledged = [&] { return locks_as(replicated).try_lock("c"); };
  EXPECT_THROW((void)unacknowledged(), Error) << "this server has no replica";
  EXPECT_FALSE(one.is_locked("c"));
}

/// Releases of which it is not known whether they, or their acquires, arrived.
void RedisAclTest::use_locks_over_a_bad_line(RedisOptions user) {
  TcpProxy proxy(server->port());
  user.unix_socket.clear();
  user.port = proxy.port();
  auto locks = locks_as(user);
  auto guard = locks.lock("c", {.auto_renew = false});
  proxy.cut_after(TcpProxy::Way::to_client, 1);
  EXPECT_TRUE(guard.release());
  proxy.cut_after(TcpProxy::Way::to_client, 1);
  auto in_doubt = locks.lock("c", {.auto_renew = false});
  EXPECT_TRUE(in_doubt.release());
}

/// Records that lost their expiry: one that counts as held for a moment still, and one that has to be cleaned
/// up.
void RedisAclTest::meet_leftovers(RedisOptions user) {
  auto raw = server->raw();
  const auto leave = [&](const std::string& name, std::int64_t ended_ms_ago) {
    raw.text({"SET", user.lock_prefix + ":" + name,
              R"({"lockId":"AAAAAAAAAAAAAAAAAAAAAA","expiresAtMs":)" +
                  std::to_string(raw.now_ms() - ended_ms_ago) +
                  R"(,"fence":"000000000000001","acquiredAtMs":1,"key":")" + name + "\"}"});
  };
  user.cleanup_in_is_locked = true;
  auto locks = locks_as(user);
  for (int i = 0; i < 3 && !called().contains("pttl"); ++i) {
    leave("held", 0);
    EXPECT_FALSE(locks.try_lock("held"));
  }
  leave("old", 60'000);
  EXPECT_FALSE(locks.is_locked("old"));
  EXPECT_TRUE(eventually([&] { return raw.integer({"EXISTS", user.lock_prefix + ":old"}) == 0; }));
}

void RedisAclTest::use_tasks(const RedisOptions& user) {
  auto locks = locks_as(user);
  auto storage = make_redis_storage_backend(user).value_or_throw();
  Tasks tasks(storage, locks, {.max_tasks_per_owner = 3});
  const auto short_lived = tasks.create("alice", {.ttl = 1ms});
  const auto removed = tasks.create("alice");
  const auto task = tasks.create("alice");
  EXPECT_TRUE(tasks.remove("alice", removed.id));
  (void)tasks.create("alice");
  EXPECT_TRUE(eventually([&] {
    return server->raw().integer({"EXISTS", user.task_prefix + ":tasks:alice:" + short_lived.id}) == 0;
  }));
  // So that the next one is listed before the task: in one millisecond the order is that of the names.
  EXPECT_TRUE(eventually([&, now = now_ms(*storage)] { return now_ms(*storage) > now; }));
  (void)tasks.create("alice");  // the quota is swept
  EXPECT_EQ(tasks.get("alice", task.id).id, task.id);
  tasks.set_variables("alice", task.id, Json::parse(R"({"a":1})").value_or_throw());
  const auto page = tasks.list("alice", {.limit = 1});
  EXPECT_EQ(tasks.list("alice", {.cursor = page.cursor}).tasks.size(), 2U);
  EXPECT_TRUE(tasks.remove("alice", page.tasks.at(0).id));
  EXPECT_EQ(tasks.list("alice", {.cursor = page.cursor}).tasks.size(), 2U) << "behind a task that is gone";
  EXPECT_EQ(tasks.owners().owners, (std::vector<std::string>{"alice"}));

  std::jthread waiter([&] { EXPECT_TRUE(tasks.wait("alice", task.id, 20s)); });
  {
    auto claim = tasks.claim("alice", task.id);
    claim.update_status(TaskStatus::input_required);
    claim.complete(Json::parse(R"({"done":true})").value_or_throw());
  }
  waiter.join();
  const auto token = FencingToken{.authority = "a", .lock_key = "k", .fence = Fence::of(1).value_or_throw()};
  const auto bound = tasks.create("bob");
  tasks.bind("bob", bound.id, token);
  tasks.rebind("bob", bound.id, token);
  tasks.rebind("bob", bound.id, std::nullopt);
  tasks.cancel("bob", bound.id);

  FencedRegister value(storage, "v");
  value.put("1", token);
  value.put("2", token);
  EXPECT_TRUE(value.bind(token));
  EXPECT_TRUE(value.rebind(token));
  EXPECT_EQ(value.get()->text, "2");
  EXPECT_EQ(tasks.cleanup_expired(), 0U);
  EXPECT_TRUE(tasks.follow());
  (void)storage->name();
}

void RedisAclTest::use_queues(const RedisOptions& user) {
  const auto storage = make_redis_storage_backend(user).value_or_throw();
  const auto watch = call(*storage, WatchQueue{.owner = "q"}).value_or_throw();
  EXPECT_TRUE(claim_next(*storage).claimed.empty());
  const BegunWait wait(*watch, never, BootClock::now() + 20s);
  enqueue(*storage, "q:a");
  EXPECT_TRUE(wait.end().value_or(false));
  enqueue(*storage, "q:b", {.not_before = storage->now() + 1h});
  const auto claimed = claim_one(*storage);
  EXPECT_TRUE(renew(*storage, claimed).is_held);
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(retry(*storage, claimed).end));
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*storage, claim_one(*storage)).end));
  EXPECT_TRUE(std::holds_alternative<ClaimedRecord>(claim_record(*storage, "q:b")));
  // One at a time of a key: the second is parked, and released by the end of the first.
  for (const auto* task : {"q:c", "q:d"}) enqueue(*storage, task, {.limit_key = "customer", .limit = 1});
  const auto alone = claim_one(*storage);
  EXPECT_TRUE(claim_next(*storage).claimed.empty());
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*storage, alone).end));
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*storage, claim_one(*storage)).end));
  EXPECT_TRUE(pause(*storage).paused);
  EXPECT_TRUE(remove(*storage, "q:b"));
}

TEST_F(RedisAclTest, IsEnoughForEveryOperationAndEachRightInItIsUsed) {
  for (const std::uint32_t db : {0U, 3U}) {
    auto options = server->unix_socket();
    options.db = db;
    const auto user = acl_user(*server, options);
    auto raw = RawRedis(options);
    raw.text({"ACL", "LOG", "RESET"});
    raw.text({"CONFIG", "RESETSTAT"});
    use_locks(user);
    use_locks_over_a_bad_line(user);
    wait_for_replicas(user);
    use_tasks(user);
    use_queues(user);
    if (db == 0) meet_leftovers(user);
    EXPECT_EQ(acl_refusals(*server), "") << db;
    if (db != 0) continue;
    const auto used = called();
    for (const auto& command : redis_acl(user).value_or_throw().commands) {
      // A subscription lingers for a second, and two are the doctor's.
      if (command.name == "unsubscribe" || command.name == "punsubscribe" || command.name == "info" ||
          command.name == "dbsize")
        continue;
      EXPECT_TRUE(used.contains(command.name)) << command.name;
    }
  }
}

TEST_F(RedisAclTest, IsEnoughForTheDoctor) {
  const auto user = acl_user(*server, server->tcp());
  const auto findings = examine_redis(user).value_or_throw();
  EXPECT_EQ(all_lines(findings).find("may not ask +"), std::string::npos) << all_lines(findings);
  for (const auto& finding : findings) {
    if (finding.topic == "persistence") continue;  // this server has none
    EXPECT_EQ(finding.severity, Severity::ok) << one_line(finding);
  }
}

TEST_F(RedisAclTest, EachCommandThatIsTakenAwayIsMissedInWords) {
  const auto acl = redis_acl(server->tcp()).value_or_throw();
  ASSERT_GT(acl.commands.size(), 30U);
  for (const auto& command : acl.commands) {
    const auto user = acl_user(*server, server->tcp(), {"-" + command.name});
    if (command.name == "info" || command.name == "dbsize") {
      const auto text = all_lines(examine_redis(user).value_or_throw());
      EXPECT_NE(text.find("while you run the doctor"), std::string::npos) << text;
      EXPECT_NE(text.find("+" + command.name), std::string::npos) << text;
      continue;
    }
    const auto found = missing(user);
    ASSERT_EQ(found.size(), 1U) << command.name << "\n" << all_lines(found);
    EXPECT_EQ(found[0].severity, command.severity) << command.name;
    EXPECT_EQ(found[0].found, "user app may not use the command " + command.name + ": " + command.without);
    EXPECT_EQ(found[0].advice, "ACL SETUSER app +" + command.name);
  }
}

TEST_F(RedisAclTest, EachPatternThatIsTakenAwayIsMissedInWords) {
  const auto without = [&](const std::string& rules) {
    std::vector<std::string> more;
    std::istringstream words(rules);
    for (std::string word; words >> word;) more.push_back(word);
    const auto found = missing(acl_user(*server, server->tcp(), more));
    EXPECT_EQ(found.size(), 1U) << rules << "\n" << all_lines(found);
    return found.empty() ? "" : one_line(found[0]);
  };
  EXPECT_EQ(
      without("resetkeys ~pmcp:*"),
      "problem rights: user app has no access to the keys syncguard:*: locks cannot be used [ACL SETUSER app "
      "~syncguard:*]");
  EXPECT_EQ(without("resetkeys ~syncguard:*"),
            "problem rights: user app has no access to the keys pmcp:*: tasks cannot be used [ACL SETUSER "
            "app ~pmcp:*]");
  EXPECT_EQ(without("resetchannels &pmcp:changed:* &__redis__:invalidate"),
            "warning rights: user app has no access to the channels syncguard:wake:*: a live view polls for "
            "released locks; a release wakes no waiter; waiters poll; waiters for a lock poll [ACL SETUSER "
            "app &syncguard:wake:*]");
  EXPECT_EQ(without("resetchannels &syncguard:wake:* &__redis__:invalidate"),
            "warning rights: user app has no access to the channels pmcp:changed:*: a live view polls for "
            "changed tasks; a changed task wakes no waiter; waiters poll; waiters for a task poll [ACL "
            "SETUSER app &pmcp:changed:*]");
  EXPECT_EQ(without("resetchannels &syncguard:wake:* &pmcp:changed:*"),
            "note rights: user app has no access to the channels __redis__:invalidate: a live view has to "
            "search for new locks, so it shows them later [ACL SETUSER app &__redis__:invalidate]");
  // Not all the keys: counters, or indexes, are out of reach.
  EXPECT_NE(without("resetkeys ~pmcp:* ~syncguard:holdfast-doctor:* ~syncguard:id:*").find("~syncguard:*]"),
            std::string::npos);
  EXPECT_NE(without("resetkeys ~syncguard:* ~pmcp:tasks:*").find("~pmcp:*]"), std::string::npos);
  // Read, but not write.
  const auto read_only = without("resetkeys ~pmcp:* %R~syncguard:*");
  EXPECT_EQ(read_only,
            "problem rights: user app may not use del, pexpireat and set on all the keys syncguard:*: locks "
            "cannot be acquired, broken, cleaned up, extended or released; locks cannot be renewed while the "
            "server is out of memory [ACL SETUSER app ~syncguard:*]");
}

TEST_F(RedisAclTest, OfAnEmptyPrefixIsALineThatTheServerTakes) {
  auto options = server->tcp();
  options.lock_prefix = "";
  const auto user = acl_user(*server, options);
  use_locks(user);
  EXPECT_EQ(acl_refusals(*server), "");
}

TEST_F(RedisAclTest, AnotherDatabaseTakesTheRightToSelectIt) {
  auto options = server->tcp();
  options.db = 3;
  const auto refused = examine_redis(acl_user(*server, options, {"-select"}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::AuthFailed);
  EXPECT_NE(std::string(refused.error().what()).find("+select"), std::string::npos) << refused.error().what();
}

/// Whoever follows the doctor's advice, and nothing else, has exactly these rights in the end.
TEST_F(RedisAclTest, IsWhatTheAdviceOfTheDoctorAmountsTo) {
  auto raw = server->raw();
  const auto user = acl_user(*server, server->tcp(), {"-@all", "resetkeys", "resetchannels"});
  for (int round = 0; round < 5; ++round) {
    for (const auto& finding : missing(user)) {
      if (finding.advice.starts_with("ACL SETUSER")) raw.text(words_of(finding.advice));
    }
  }
  EXPECT_EQ(all_lines(missing(user)), "");
  raw.text({"ACL", "LOG", "RESET"});
  use_locks(user);
  use_tasks(user);
  use_queues(user);
  EXPECT_EQ(acl_refusals(*server), "");
}

TEST_F(RedisAclTest, AUserForLocksAloneIsNotApproved) {
  // What docs/guide/redis.md granted before there were tasks.
  const auto user =
      acl_user(*server, server->tcp(),
               {"resetkeys",      "resetchannels", "-@all",    "~syncguard:*", "&syncguard:wake:*",
                "+get",           "+set",          "+del",     "+incr",        "+time",
                "+eval",          "+evalsha",      "+publish", "+subscribe",   "+unsubscribe",
                "+scan",          "+select",       "+ping",    "+info",        "+dbsize",
                "+client|setname"});
  const auto text = all_lines(missing(user));
  for (const char* rule : {"~pmcp:*", "&pmcp:changed:*", "+hmget", "+exists", "+zcard", "+zadd", "+hset",
                           "+pexpireat", "+zrevrange"}) {
    EXPECT_NE(text.find("[ACL SETUSER app " + std::string(rule) + "]"), std::string::npos) << rule << "\n"
                                                                                           << text;
  }
  EXPECT_NE(text.find("problem rights: user app has no access to the keys pmcp:*: tasks cannot be used"),
            std::string::npos)
      << text;
}

TEST_F(RedisAclTest, TryingTheRightsLeavesNothingBehindEvenWithoutTheRightToDelete) {
  (void)missing(acl_user(*server, server->tcp(), {"-del"}));
  auto raw = server->raw();
  std::istringstream left(raw.text({"KEYS", "*"}));
  for (std::string name; left >> name;) {
    EXPECT_GT(raw.integer({"PTTL", name}), 0) << name;
    raw.text({"DEL", name});
  }
  (void)missing(acl_user(*server, server->tcp()));
  EXPECT_EQ(raw.integer({"DBSIZE"}), 0);
  // Nor is anything changed that happens to be there: a user with all rights tries them on names of its own.
  raw.text({"SET", "syncguard:k", "x"});
  raw.text({"HSET", "pmcp:tasks:a:b", "version", "1"});
  (void)examine_redis(server->tcp()).value_or_throw();
  EXPECT_EQ(raw.integer({"DBSIZE"}), 2);
}

/// The line that a document shows.
std::string documented_line(const std::string& document) {
  std::ifstream file(source_dir() + "/docs/" + document);
  const std::string indented = "    ACL SETUSER ";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(indented)) return line.substr(4);
  }
  return "docs/" + document + " shows no line";
}

TEST_F(RedisAclTest, TheDocumentsShowWhatIsPrinted) {
  const auto line = redis_acl("redis://locks@127.0.0.1:6379").value_or_throw().line();
  EXPECT_EQ(documented_line("guide/redis.md"), line);
}

}  // namespace
}  // namespace holdfast::test
