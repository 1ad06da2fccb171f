// What an operator sees: everybody's tasks, everybody's locks.

#include <holdfast/open.hpp>
#include <holdfast/redis.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "output_parts.hpp"
#include "program.hpp"
#include "support/paths.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

class AllOwners : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("redis")) {
      if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
      server.emplace();
    }
    engine.emplace(open(server ? server->url() : url()));
    tasks.emplace(engine->tasks({.allow_anonymous = true}));
  }
  Finished run(std::vector<std::string> typed) const {
    return holdfast(std::move(typed),
                    {.environment = {"HOLDFAST_URL=" + engine_url(), "HOLDFAST_TASK_OWNER=alice"},
                     .input = {},
                     .before_exec = {}});
  }
  [[nodiscard]] std::string engine_url() const { return server ? server->url() : url(); }
  [[nodiscard]] Finished all(std::vector<std::string> more = {}) const {
    std::vector<std::string> typed{"--json", "task", "list", "--all-owners"};
    typed.insert(typed.end(), more.begin(), more.end());
    return run(typed);
  }
  /// Owner and method of each.
  using Shown = std::multiset<std::pair<std::string, std::string>>;
  static Shown shown(const Finished& listed) {
    Shown result;
    for (const auto& line : lines_of(listed.out)) {
      const auto task = json::parse(line);
      result.emplace(task.at("ownerId"), task.at("requestMethod"));
    }
    return result;
  }

  std::optional<RedisServer> server;
  std::optional<Holdfast> engine;
  std::optional<Tasks> tasks;
};

TEST_P(AllOwners, ListsEverybodysTasksOnceWhoeverTheyAre) {
  Shown expected;
  for (const std::string owner : {"alice", "bob", "a:b", "a%3Ab", "*", "[x]", "é", "local", "sub|1:2"}) {
    for (const std::string method : {"one", "two"}) {
      (void)tasks->create(owner, {.method = method});
      expected.emplace(owner, method);
    }
  }
  engine->fenced_register("no task").put("text", engine->locks().lock("k"));
  const auto listed = all();
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_EQ(listed.err, "");
  EXPECT_EQ(shown(listed), expected);

  const auto table = run({"task", "list", "--all-owners"});
  EXPECT_EQ(table.code, 0) << table.err;
  const auto rows = lines_of(table.out);
  ASSERT_EQ(rows.size(), expected.size() + 1);
  EXPECT_TRUE(rows[0].starts_with("OWNER")) << rows[0];
  EXPECT_EQ(std::ranges::count_if(rows, [](const auto& row) { return row.starts_with("sub|1:2  "); }), 2);
}

TEST_P(AllOwners, OfAStateAndSoManyAtMost) {
  for (int i = 0; i < 30; ++i) {
    const auto owner = "owner" + std::to_string(i);
    const auto first = tasks->create(owner, {.method = "done"});
    (void)tasks->cancel(owner, first.id);
    (void)tasks->create(owner, {.method = "going on"});
  }
  const auto working = all({"--status", "working"});
  EXPECT_EQ(lines_of(working.out).size(), 30U);
  for (const auto& [owner, method] : shown(working)) EXPECT_EQ(method, "going on") << owner;
  EXPECT_EQ(lines_of(all({"--limit", "41"}).out).size(), 41U);
  EXPECT_EQ(lines_of(all({"--limit", "7", "--status", "cancelled"}).out).size(), 7U);
  EXPECT_EQ(lines_of(all({"--limit", "61"}).out).size(), 60U);
  const auto few = run({"task", "list", "--all-owners", "--limit", "1"});
  EXPECT_EQ(lines_of(few.out).size(), 2U);
  EXPECT_NE(few.err.find("there may be more"), std::string::npos) << few.err;
  const auto none = run({"task", "list", "--all-owners", "--status", "failed"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "holdfast: no owner has tasks with the status failed\n");
}

TEST_P(AllOwners, WhatCannotBeReadIsToldAndPassedOver) {
  (void)tasks->create("alice", {.method = "one"});
  put(tasks->storage(), "alice:broken", "no JSON");
  put(tasks->storage(), "alice:other", "{\"task\":{}}");
  (void)tasks->create("alice", {.method = "two"});
  (void)tasks->create("bob", {.method = "three"});
  const auto listed = all();
  EXPECT_EQ(listed.code, 70);
  EXPECT_EQ(shown(listed), (Shown{{"alice", "one"}, {"alice", "two"}, {"bob", "three"}}));
  const auto complaints = lines_of(listed.err);
  ASSERT_EQ(complaints.size(), 2U) << listed.err;
  for (const auto& line : complaints) {
    const auto error = json::parse(line).at("error");
    EXPECT_EQ(error.at("code"), "Internal");
    EXPECT_NE(error.at("message").get<std::string>().find("alice"), std::string::npos) << line;
  }
  const auto table = run({"task", "list", "--all-owners"});
  EXPECT_EQ(table.code, 70);
  EXPECT_EQ(lines_of(table.out).size(), 4U) << table.out;
  EXPECT_NE(table.err.find("broken"), std::string::npos) << table.err;
  const auto of_alice = run({"task", "list", "--owner", "alice"});
  EXPECT_EQ(of_alice.code, 70);
  EXPECT_EQ(lines_of(of_alice.out).size(), 3U) << of_alice.out;
  EXPECT_EQ(lines_of(of_alice.err).size(), 2U) << of_alice.err;
  EXPECT_NE(of_alice.err.find("broken"), std::string::npos) << of_alice.err;
}

INSTANTIATE_TEST_SUITE_P(Engines, AllOwners, testing::Values("sqlite", "redis"),
                         [](const auto& engine) { return std::string(engine.param); });

class OperatorsView : public CliTest {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }
  [[nodiscard]] Finished run(std::vector<std::string> typed) const {
    typed.insert(typed.begin(), {"--url", server->url()});
    return holdfast(typed);
  }
  std::optional<RedisServer> server;
};

TEST_F(OperatorsView, HasRoomForMoreOwnersThanAPageHolds) {
  // As another program writes them: what counts here is how many there are.
  std::set<std::string> expected;
  for (std::size_t i = 0; i < 2 * max_record_page + 100; ++i) expected.insert("owner" + std::to_string(i));
  auto raw = server->raw();
  for (const auto& owner : expected) {
    raw.send({"HSET", "pmcp:tasks:" + owner + ":t", "version", "1", "data",
              R"({"task":{"taskId":"t","status":"working"},"ownerId":")" + owner + R"("})"});
    raw.send({"ZADD", "pmcp:idx:" + owner, "1", "t"});
  }
  for (std::size_t i = 0; i < 2 * expected.size(); ++i) (void)raw.receive();
  const auto listed = run({"--json", "task", "list", "--all-owners"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  std::multiset<std::string> owners;
  for (const auto& line : lines_of(listed.out)) owners.insert(json::parse(line).at("ownerId"));
  EXPECT_EQ(owners, std::multiset<std::string>(expected.begin(), expected.end()));
  const auto rows = lines_of(run({"task", "list", "--all-owners"}).out);
  EXPECT_EQ(rows.size(), expected.size() + 1) << "one head";
}

TEST_F(OperatorsView, LocksOfSyncGuard1AreShownForWhatTheyAre) {
  auto raw = server->raw();
  const auto ends = raw.now_ms() + 600'000;
  const auto record = [&](const std::string& id) {
    return R"({"key":"old","acquiredAtMs":1700000000000,"fence":"0000000000000000042","lockId":")" + id +
           R"(","expiresAtMs":)" + std::to_string(ends) + "}";
  };
  const std::string id(22, 'A');
  const auto hold = [&] {
    raw.text({"SET", "syncguard:old", record(id), "PX", "600000"});
    raw.text({"SET", "syncguard:id:" + id, "old", "PX", "600000"});
  };
  hold();
  const auto shown = run({"lock", "show", "old"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("000000000000042"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("SyncGuard 1.0"), std::string::npos) << shown.out;
  EXPECT_EQ(json::parse(run({"--json", "lock", "show", "old"}).out).at("fenceDigits"), 19);
  const auto by_id = run({"--json", "lock", "show", "--raw", "--id", id});
  EXPECT_EQ(by_id.code, 0) << by_id.err;
  EXPECT_EQ(json::parse(by_id.out).at("key"), "old");
  const auto listed = run({"lock", "list"});
  EXPECT_EQ(lines_of(listed.out).size(), 2U) << listed.out;
  EXPECT_NE(listed.err.find("1 of these are held by SyncGuard 1.0"), std::string::npos) << listed.err;
  EXPECT_EQ(run({"lock", "acquire", "-n", "old"}).code, 75);
  EXPECT_EQ(run({"lock", "break", "old", "--reason", "gone", "--fence", "41"}).code, 1);
  const auto broken = run({"lock", "break", "old", "--reason", "gone", "--fence", "0000000000000000042"});
  EXPECT_EQ(broken.code, 0) << broken.err;
  EXPECT_NE(broken.out.find("SyncGuard 1.0"), std::string::npos) << broken.out;
  EXPECT_EQ(run({"lock", "show", "old"}).code, 1);
  EXPECT_EQ(raw.integer({"EXISTS", "syncguard:old"}), 0);
}

TEST_F(OperatorsView, OfACallerWithoutStdoutIsNotSentToTheServer) {
  auto raw = server->raw();
  raw.text({"SET", "canary", "1"});
  auto engine = open(server->url());
  const auto guard = engine.locks().lock("DEL canary");
  Program program(directory(), {"sh", "-c", R"("$HOLDFAST" lock list <&- >&-)"},
                  {.environment = {"HOLDFAST_URL=" + server->url(), "HOLDFAST=" + holdfast_program()}});
  EXPECT_NE(program.wait(std::chrono::seconds(30)).code, 0) << "nobody got the list";
  EXPECT_EQ(raw.text({"GET", "canary"}), "1");
}

TEST_F(OperatorsView, NeverAsksForAllKeysAtOnce) {
  auto raw = server->raw();
  for (int i = 0; i < 5000; ++i) raw.send({"SET", "elsewhere:" + std::to_string(i), "x"});
  for (int i = 0; i < 5000; ++i) (void)raw.receive();
  auto engine = open(server->url());
  const auto guard = engine.locks().lock("k");
  (void)engine.tasks().create("alice");
  raw.text({"CONFIG", "RESETSTAT"});
  for (const auto& typed : {std::vector<std::string>{"lock", "list"}, {"task", "list", "--all-owners"}}) {
    const auto listed = run(typed);
    EXPECT_EQ(listed.code, 0) << listed.err;
    EXPECT_EQ(lines_of(listed.out).size(), 2U) << listed.out;
  }
  const auto asked = raw.text({"INFO", "commandstats"});
  EXPECT_NE(asked.find("cmdstat_scan:"), std::string::npos) << asked;
  EXPECT_EQ(asked.find("cmdstat_keys"), std::string::npos) << asked;
}

}  // namespace
}  // namespace holdfast::test
