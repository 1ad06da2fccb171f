// The router on a cluster of real servers: which node gets a call, which thread does its I/O.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <holdfast/doctor.hpp>
#include <holdfast/open.hpp>
#include <holdfast/redis.hpp>
#include <thread>

#include "engine/redis/router.hpp"
#include "support/acl_user.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/fake_redis.hpp"
#include "support/in_child.hpp"
#include "support/queue_calls.hpp"
#include "support/redis_cluster.hpp"

namespace holdfast::test {
namespace {

class RedisRouter : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    static RedisCluster started;
    cluster = &started;
    router = redis::Router::open(cluster->options(), "{p}", {}).value_or_throw();
  }
  void TearDown() override {
    if (router) router->close();
  }

  /// Completes a flag.
  struct Asked final : redis::Call {
    explicit Asked(std::atomic<int>& answered) : answered_(answered) {}
    void finish(std::unique_ptr<Call>, Result<redis::Reply> answer) override {
      EXPECT_TRUE(answer) << answer.error().what();
      ++answered_;
    }
    std::atomic<int>& answered_;
  };
  struct Blocking final : redis::Call {
    explicit Blocking(Slot<redis::Reply>& slot) : done(Done<redis::Reply>::into(slot)) { awaited = true; }
    void finish(std::unique_ptr<Call>, Result<redis::Reply> answer) override { done(std::move(answer)); }
    Done<redis::Reply> done;
  };
  static redis::RoutedCommand get(const std::string& key) {
    auto command = redis::Command::begin("GET", 1);
    command.add_key(key);
    return std::move(command).routed();
  }
  static std::unique_ptr<redis::Call> get(std::unique_ptr<redis::Call> call, const std::string& key) {
    auto command = get(key);
    call->bytes = std::move(command.bytes);
    call->key_at = command.key_at;
    call->key_size = command.key_size;
    call->deadline = BootClock::now() + 10s;
    return call;
  }
  void begin(Slot<redis::Reply>& slot, const std::string& key) {
    router->send(get(std::make_unique<Blocking>(slot), key), {});
  }

  RedisCluster* cluster = nullptr;
  std::shared_ptr<redis::Router> router;
  /// Keys of the three masters.
  const std::vector<std::string> keys{"{a}", "{b}", "{c}", "{d}", "{e}", "{f}"};
};

TEST_F(RedisRouter, KeysOfSeveralMastersAreReached) {
  std::set<std::size_t> owners;
  for (const auto& key : keys) {
    owners.insert(cluster->owner_of_key(key));
    auto set = redis::Command::begin("SET", 2);
    set.add_key(key).add("x");
    EXPECT_TRUE(router->call_routed(std::move(set).routed(), BootClock::now() + 10s));
    const auto answer = router->call_routed(get(key), BootClock::now() + 10s);
    ASSERT_TRUE(answer);
    EXPECT_EQ(redis::text_of(**answer), "x");
  }
  EXPECT_EQ(owners.size(), 3U) << "otherwise this shows less than it says";
  EXPECT_EQ(router->masters().size(), 3U);
}

/// A listing of what is found goes on with the next of them in its next call.
TEST_F(RedisRouter, TheMastersKeepTheirOrderWhicheverNodeTheMapIsOf) {
  const auto order = router->masters();
  const auto maps_asked = [&] {
    std::int64_t calls = 0;
    for (std::size_t i = 0; i < RedisCluster::masters; ++i) {
      const auto text = cluster->node(i).raw().text({"INFO", "commandstats"});
      const auto at = text.find("cmdstat_cluster|nodes:calls=");
      if (at != std::string::npos) calls += std::stoll(text.substr(text.find('=', at) + 1));
    }
    return calls;
  };
  for (int round = 0; round < 6; ++round) {
    const auto before = maps_asked();
    router->look_anew();
    ASSERT_TRUE(eventually([&] { return maps_asked() > before; }));
    std::this_thread::sleep_for(20ms);  // until the answer is used
    EXPECT_EQ(router->masters(), order);
  }
}

TEST_F(RedisRouter, AThreadMayWaitForItsCallsInAnyOrder) {
  for (int round = 0; round < 20; ++round) {
    std::array<Slot<redis::Reply>, 6> slots;
    for (std::size_t i = 0; i < keys.size(); ++i) begin(slots[i], keys[i]);
    for (std::size_t i = keys.size(); i > 0; --i) {
      router->wait(slots[i - 1].completion);
      EXPECT_TRUE(*slots[i - 1].result);
    }
  }
}

TEST_F(RedisRouter, AnotherThreadMayWaitForACall) {
  for (int round = 0; round < 20; ++round) {
    std::array<Slot<redis::Reply>, 2> slots;
    begin(slots[0], keys[0]);
    begin(slots[1], keys[1]);
    std::jthread other([&] {
      for (auto& slot : slots) router->wait(slot.completion);
    });
    other.join();
    for (auto& slot : slots) EXPECT_TRUE(*slot.result);
  }
}

/// The completion runs on the thread that leads the connection to one master. It waits for a call to another
/// one, which sends it back to the first.
TEST_F(RedisRouter, ACompletionMayWaitForACallThatComesBackToItsMaster) {
  const auto here = cluster->owner_of_key(keys[0]);
  const auto& moving =
      *std::ranges::find_if(keys, [&](const auto& key) { return cluster->owner_of_key(key) != here; });
  const auto slot = cluster->slot_of(moving);
  const auto there = cluster->owner_of(slot);
  cluster->migrate(slot, there, here);

  struct Waits final : redis::Call {
    explicit Waits(std::function<void()> then) : then_(std::move(then)) {}
    void finish(std::unique_ptr<Call>, Result<redis::Reply>) override { then_(); }
    std::function<void()> then_;
  };
  Slot<redis::Reply> slot_of_inner;
  std::atomic<bool> ended = false;
  router->send(get(std::make_unique<Waits>([&] {
                     begin(slot_of_inner, moving);
                     router->wait(slot_of_inner.completion);
                     ended = true;
                   }),
                   keys[0]),
               {});
  EXPECT_TRUE(eventually([&] { return ended.load(); })) << "nobody leads the connection that it waits for";
  if (ended) {
    EXPECT_TRUE(*slot_of_inner.result);
  }
  cluster->migrate(slot, here, there);
}

TEST_F(RedisRouter, AnIdleThreadAndTheBackgroundServeCallsOfSeveralMasters) {
  std::atomic<int> answered = 0;
  const int called = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  for (int round = 1; round <= 20; ++round) {
    for (const auto& key : keys) {
      auto call = get(std::make_unique<Asked>(answered), key);
      call->by_idle_io = true;
      router->send(std::move(call), {});
    }
    router->run_until_readable(called);
    EXPECT_TRUE(eventually([&] { return answered == round * static_cast<int>(keys.size()); }));
  }
  router->run_until_readable(-1);
  ::close(called);
}

TEST_F(RedisRouter, ManyThreadsFindTheirAnswersWhileSlotsMove) {
  const auto slot = cluster->slot_of(keys[0]);
  std::atomic<int> answered = 0, failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i](const std::stop_token& stop) {
        for (int n = i; !stop.stop_requested(); ++n) {
          const auto answer =
              router->call_routed(get(keys[static_cast<std::size_t>(n) % 2]), BootClock::now() + 10s);
          ++(answer && !redis::is_error(**answer) ? answered : failed);
        }
      });
    }
    for (int round = 0; round < 5; ++round) {
      const auto from = cluster->owner_of(slot);
      const auto to = (from + 1) % RedisCluster::masters;
      cluster->migrate(slot, from, to);
      const auto before = answered.load();
      EXPECT_TRUE(eventually([&] { return answered > before + 100; }));
    }
  }
  EXPECT_EQ(failed, 0);
}

// While a slot moves, the entries of a queue and its records are on two nodes.
TEST_F(RedisRouter, AQueueLosesNoTaskWhileItsSlotMoves) {
  for (const int variant : {0, 1, 2, 3}) {
    const bool records_go_first = variant % 2 == 0, is_expired = variant < 2;
    auto options = cluster->options();
    options.task_prefix = private_prefix();
    options.command_timeout = 150ms;
    const auto backend = make_redis_storage_backend(options).value_or_throw();
    const auto find = [&](std::size_t node, const std::string& pattern) {
      std::vector<std::string> names;
      auto raw = cluster->node(node).raw();
      const auto reply = raw.command({"KEYS", options.task_prefix + pattern});
      for (const auto* name : redis::elements_of(*reply)) names.emplace_back(redis::text_of(*name));
      return names;
    };
    for (const auto* key : {"q:finished", "q:leased", "q:a", "q:b", "q:c"}) enqueue(*backend, key);
    enqueue(*backend, "q:delayed", {.not_before = backend->now() + 1h});
    finish(*backend, claim_one(*backend));
    const auto leased = claim_one(*backend, claim_terms(1, "worker", is_expired ? 1ms : 60s));
    std::size_t from = 0;
    while (find(from, "*queue:ready:*").empty()) ++from;
    const auto to = (from + 1) % RedisCluster::masters;
    const auto ready = find(from, "*queue:ready:*").at(0);
    const auto named = [&](std::string kind) {
      return std::string(ready).replace(ready.find("ready:"), 6, kind + ":");
    };
    // A server refuses a script while some of the declared keys are missing, so these must be there too.
    cluster->node(from).raw().integer({"ZADD", named("exhausted"), "1", "none"});
    cluster->node(from).raw().integer({"ZADD", named("waiters"), "1", "none"});
    const auto slot = cluster->slot_of(ready);
    cluster->begin_migration(slot, from, to);
    for (const auto& name : find(from, "*")) {
      const bool is_record = name.find("}:task:") != std::string::npos;
      if (cluster->slot_of(name) != slot || is_record != records_go_first) continue;
      const auto port = std::to_string(cluster->node(to).port());
      EXPECT_EQ(cluster->node(from).raw().text({"MIGRATE", "127.0.0.1", port, name, "0", "1000"}), "OK");
    }
    EXPECT_FALSE(call(*backend, ClaimNext{.owner = "q", .terms = claim_terms(2)})) << "half of it is there";
    const RenewLeases renewal{.owner = "q", .leases = {lease_of(leased)}, .lease = 60s};
    EXPECT_FALSE(call(*backend, renewal)) << "the worker would be stopped";
    cluster->move_keys(slot, from, to);
    cluster->end_migration(slot, from, to);
    std::set<std::string> claimed;
    EXPECT_TRUE(eventually([&] {
      const auto next = call(*backend, ClaimNext{.owner = "q", .terms = claim_terms(10)});
      if (next) std::ranges::move(names_of(next->claimed), std::inserter(claimed, claimed.end()));
      return claimed.size() >= (is_expired ? 4 : 3);
    })) << variant;
    if (!is_expired) claimed.emplace(leased.key.task());
    EXPECT_EQ(claimed, (std::set<std::string>{"a", "b", "c", "leased"}));
  }
}

TEST_F(RedisRouter, TheDoctorExaminesEveryMaster) {
  auto options = cluster->options();
  options.layout = RedisLayout::documented;
  options.lock_prefix = "{doctor}";
  options.task_prefix = "{doctor-tasks}";
  const auto findings = examine_redis(options).value_or_throw();
  std::string text;
  for (const auto& finding : findings) {
    text += finding.topic + ": " + finding.found + "\n";
    // These servers save nothing, and have no replicas.
    if (finding.topic != "persistence") {
      EXPECT_LT(finding.severity, Severity::problem) << finding.found;
    }
  }
  const bool is_valkey =
      cluster->node(0).raw().text({"INFO", "server"}).find("server_name:valkey") != std::string::npos;
  EXPECT_NE(text.find(is_valkey ? "server: all 3 masters: Valkey " : "server: all 3 masters: Redis "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("cluster: 3 masters have all slots"), std::string::npos) << text;
  EXPECT_NE(text.find("cluster: without a replica: 127.0.0.1:"), std::string::npos) << text;
  options.task_prefix = "pmcp";
  EXPECT_EQ(examine_redis(options).error().code(), ErrorCode::InvalidArgument);
}

TEST_F(RedisRouter, AUserWithExactlyTheRightsOfTheAclIsEnough) {
  auto options = cluster->options();
  options.user = "app";
  options.password = "secret";
  options.lock_prefix = options.task_prefix = "{" + private_prefix() + "}";
  auto line = redis_acl(options).value_or_throw();
  for (std::size_t i = 0; i < cluster->size(); ++i) {
    std::vector<std::string> words{"ACL",     "SETUSER",   "app",           "on",
                                   ">secret", "resetkeys", "resetchannels", "-@all"};
    for (const auto& key : line.keys) words.push_back("~" + key);
    for (const auto& channel : line.channels) words.push_back("&" + channel);
    for (const auto& command : line.commands) words.push_back("+" + command.name);
    EXPECT_EQ(cluster->node(i).raw().text(words), "OK");
    cluster->node(i).raw().text({"ACL", "LOG", "RESET"});
  }
  const auto slot = cluster->slot_of(options.lock_prefix);
  const auto from = cluster->owner_of(slot);
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  const auto id = LockId::generate();
  EXPECT_TRUE(acquire(*backend, id, "k"));
  cluster->migrate(slot, from, (from + 1) % RedisCluster::masters);
  EXPECT_EQ(release(*backend, id, "k"), std::nullopt);
  EXPECT_TRUE(acquire(*backend, LockId::generate(), "k"));
  for (std::size_t i = 0; i < cluster->size(); ++i)
    EXPECT_EQ(cluster->node(i).raw().text({"ACL", "LOG"}), "");
}

TEST_F(RedisRouter, AListGoesOverAllMasters) {
  auto options = cluster->options();
  options.lock_prefix = private_prefix();  // without a tag: the locks are in many slots
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  std::set<std::string> held;
  for (int i = 0; i < 25; ++i) {
    const auto name = "k" + std::to_string(i);
    ASSERT_TRUE(acquire(*backend, LockId::generate(), name));
    held.insert(name);
  }
  std::set<std::string> listed;
  for (std::string cursor;;) {
    const auto page = list(*backend, {.cursor = cursor, .limit = 10}).value_or_throw();
    for (const auto& lock : page.locks) EXPECT_TRUE(listed.insert(lock.key.str()).second);
    if (page.cursor.empty()) break;
    cursor = page.cursor;
  }
  EXPECT_EQ(listed, held);
}

TEST_F(RedisRouter, ALockOfTheNativeLayoutIsFoundByItsIdFromAnotherClient) {
  auto options = cluster->options();
  options.lock_prefix = private_prefix();
  const auto mine = make_redis_lock_backend(options).value_or_throw();
  const auto other = make_redis_lock_backend(options).value_or_throw();
  for (int i = 0; i < 20; ++i) {  // the hint and the lock are in two slots, mostly of two masters
    const auto id = LockId::generate();
    const auto name = "k" + std::to_string(i);
    ASSERT_TRUE(acquire(*mine, id, name)) << name;
    const auto found = lookup(*other, id);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->key.str(), name);
    EXPECT_EQ(release(*other, id), std::nullopt) << name;
    EXPECT_FALSE(is_locked(*mine, name)) << name;
  }
}

/// How many masters a finding is about.
std::size_t masters_in(const Finding& finding) {
  if (finding.found.starts_with("all 3 masters: ")) return 3;
  const auto names = finding.found.substr(0, finding.found.find(": "));
  return 1 + static_cast<std::size_t>(std::ranges::count(names, ','));
}

std::string about_the_cluster(const RedisOptions& options) {
  std::string text;
  for (const auto& finding : examine_redis(options).value_or_throw()) {
    text += std::string(to_string(finding.severity)) + " " + finding.topic + ": " + finding.found + " [" +
            finding.advice + "]\n";
  }
  return text;
}

TEST_F(RedisRouter, TheDoctorReadsTheMapFromAnotherNodeIfOneConsidersTheClusterDown) {
  // It has missed that two more masters joined.
  const auto stale = std::string(40, 'a') + " 127.0.0.1:" + std::to_string(cluster->node(0).port()) +
                     "@1 master - 0 0 1 connected 0-16383\n";
  const FakeRedis isolated([&](const FakeRedis::Words& words) -> FakeRedis::Answer {
    if (words[0] == "HELLO") return {"*2\r\n" + FakeRedis::bulk("mode") + FakeRedis::bulk("cluster")};
    if (words[0] != "CLUSTER") return FakeRedis::politely(words);
    if (words[1] == "NODES") return {FakeRedis::bulk(stale)};
    return {words[1] == "INFO" ? FakeRedis::bulk("cluster_state:fail\r\n") : "*0\r\n"};
  });
  auto options = cluster->options();
  options.lock_prefix = private_prefix();
  options.cluster_nodes = {{.host = "127.0.0.1", .port = isolated.port()}};
  const auto found = about_the_cluster(options);
  EXPECT_NE(found.find("problem cluster: the cluster is down (cluster_state:fail) according to 127.0.0.1:" +
                       std::to_string(isolated.port()) + ": "),
            std::string::npos)
      << found;
  EXPECT_NE(found.find("ok cluster: 3 masters have all slots"), std::string::npos) << found;
}

TEST_F(RedisRouter, TheDoctorComparesCountersWithTheEpochOfTheirMaster) {
  auto options = cluster->options();
  options.lock_prefix = private_prefix();
  const auto lock = options.lock_prefix + ":k";
  auto owner = cluster->node(cluster->owner_of_key(lock)).raw();
  constexpr auto all_is_well = "fences continue above those that a failover lost";
  EXPECT_NE(about_the_cluster(options).find(all_is_well), std::string::npos) << about_the_cluster(options);
  // An idle lock of the native layout: flags, a counter of seven bytes, an authority.
  owner.integer({"HSET", lock, "s", std::string(1, '\0') + std::string(7, '\1') + "authorit"});
  const auto found = about_the_cluster(options);
  EXPECT_NE(found.find("warning cluster: a fence counter at "), std::string::npos) << found;
  EXPECT_NE(found.find("is at 282578800148737, above all fences of its config epoch"), std::string::npos)
      << found;
  EXPECT_EQ(found.find(all_is_well), std::string::npos) << found;
  owner.integer({"DEL", lock});
}

TEST_F(RedisRouter, TheDoctorMissesTheUserAtANodeAndAMarkOfTheOtherLayout) {
  auto options = cluster->options();
  options.lock_prefix = options.task_prefix = private_prefix();
  const auto marker = options.task_prefix + ":layout";
  auto owner = cluster->node(cluster->owner_of_key(marker)).raw();
  owner.text({"SET", marker, "documented"});
  for (const std::size_t node : {0U, 1U}) (void)acl_user(cluster->node(node), options);
  options.user = "app";
  options.password = "sesame";
  const auto found = about_the_cluster(options);
  EXPECT_NE(found.find("[create the user there too (ACL SETUSER, then ACL SAVE)"), std::string::npos)
      << found;
  EXPECT_EQ(found.find("start it"), std::string::npos) << found;
  (void)acl_user(cluster->node(2), options);
  EXPECT_NE(about_the_cluster(options).find("is used with layout=documented; tasks cannot be used"),
            std::string::npos);
  owner.integer({"DEL", marker});
  for (std::size_t node = 0; node < cluster->size(); ++node) {
    cluster->node(node).raw().text({"ACL", "DELUSER", "app"});
  }
}

TEST_F(RedisRouter, TheDoctorRunsItsScriptsWhereTheirKeysAre) {
  for (const auto layout : {RedisLayout::native, RedisLayout::documented}) {
    auto options = cluster->options();
    options.layout = layout;
    const bool native = layout == RedisLayout::native;
    options.lock_prefix = options.task_prefix = native ? private_prefix() : "{" + private_prefix() + "}";
    std::size_t ran = 0, servers = 0;
    for (const auto& finding : examine_redis(options).value_or_throw()) {
      if (finding.topic == "scripts") {
        ran += masters_in(finding);
        EXPECT_EQ(finding.severity, Severity::ok) << finding.found;
      }
      if (finding.topic == "rights") {
        EXPECT_EQ(finding.severity, Severity::ok) << finding.found;
      }
      if (finding.topic == "clock") servers += masters_in(finding);
    }
    EXPECT_EQ(servers, RedisCluster::masters);
    EXPECT_EQ(ran, native ? RedisCluster::masters : 1U) << "a tag keeps all keys at one master";
  }
}

/// A virtual machine that was started for one job: its clock begins at zero.
TEST_F(RedisRouter, AGrantCarriesTheEpochOnAMachineThatHasJustStarted) {
  auto options = cluster->options();
  options.lock_prefix = private_prefix();
  router->close();
  router.reset();
  const auto uptime = std::chrono::floor<std::chrono::seconds>(BootClock::now().time_since_epoch());
  const auto above_the_epoch = in_child([&] {
    if (::unshare(CLONE_NEWTIME) != 0) return false;
    const auto offset = "boottime " + std::to_string(1 - uptime.count()) + " 0\n";
    if (!(std::ofstream("/proc/self/timens_offsets") << offset << std::flush)) return false;
    return in_child([&] {
      if (BootClock::now().time_since_epoch() > 4s) return false;
      const auto backend = make_redis_lock_backend(options).value_or_throw();
      const auto grant = acquire(*backend, LockId::generate(), "k");
      return grant && grant->fence.value() >= 1'000'000'000;
    });
  });
  const auto is_allowed = in_child([] { return ::unshare(CLONE_NEWTIME) == 0; });
  if (!is_allowed) GTEST_SKIP() << "this user may not make namespaces (needs root); not covered here";
  EXPECT_TRUE(above_the_epoch);
}

TEST_F(RedisRouter, ReplicasThatAcknowledgeAreRefused) {
  auto options = cluster->options();
  options.lock_prefix = private_prefix();
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  const auto refused =
      try_acquire(*backend, {.id = LockId::generate(), .key = key("k"), .ttl = ttl(30s), .min_replicas = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
  EXPECT_FALSE(is_locked(*backend, "k"));
  options.min_replicas = 1;
  EXPECT_EQ(make_redis_lock_backend(options).error().code(), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace holdfast::test
