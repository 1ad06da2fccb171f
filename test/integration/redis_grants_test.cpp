// A feed of grants: the server names the locks that are acquired, by any client, and an acquire does nothing
// for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <holdfast/holdfast.hpp>
#include <holdfast/redis.hpp>
#include <set>

#include "support/acl_user.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using Kind = Change::Kind;

Locks locks_of(const RedisOptions& options) {
  return Locks(make_redis_lock_backend(options).value_or_throw());
}

/// The changes up to the one of this key; all of them if that does not come in time.
std::vector<Change> heard_up_to(ChangeFeed& feed, std::string_view key,
                                BootTime deadline = BootClock::now() + 10s) {
  std::vector<Change> all;
  while (BootClock::now() < deadline) {
    for (auto& change : feed.next(deadline)) {
      all.push_back(std::move(change));
      if (all.back().key == key) return all;
    }
  }
  return all;
}

bool is_named(ChangeFeed& feed, std::string_view key, BootTime deadline = BootClock::now() + 10s) {
  const auto all = heard_up_to(feed, key, deadline);
  return !all.empty() && all.back().key == key;
}

class RedisGrants : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }
  std::optional<RedisServer> server;
};

TEST_F(RedisGrants, AreNamedAndRenewalsAndReleasesAreNot) {
  const auto viewer = locks_of(server->unix_socket()), holder = locks_of(server->unix_socket());
  const auto feed = viewer.follow_grants();
  ASSERT_TRUE(feed);
  auto first = holder.lock("orders:42");
  EXPECT_TRUE(first.extend(20s));
  first.release();
  const auto held = holder.lock("the next");
  EXPECT_EQ(heard_up_to(*feed, "the next"),
            (std::vector<Change>{{.kind = Kind::acquired, .key = "orders:42"},
                                 {.kind = Kind::acquired, .key = "the next"}}));
  // As SyncGuard acquires: its scripts increment the same counter.
  auto raw = server->raw();
  raw.text({"INCR", "syncguard:fence:syncguard:by syncguard"});
  EXPECT_TRUE(is_named(*feed, "by syncguard"));
  const auto page = viewer.list_raw({.only = std::vector{key("the next"), key("orders:42"), key("none")}});
  ASSERT_EQ(page.locks.size(), 1U);
  EXPECT_EQ(page.locks[0].key.str(), "the next");
  EXPECT_EQ(page.cursor, "");
}

TEST_F(RedisGrants, AreNamedInTheNativeLayoutAsWrites) {
  auto options = server->unix_socket();
  options.layout = RedisLayout::native;
  const auto viewer = locks_of(options), holder = locks_of(options);
  const auto feed = viewer.follow_grants();
  ASSERT_TRUE(feed);
  static_cast<void>(holder.acquire("short", {.ttl = 100ms}));
  const auto written = std::vector<Change>{{.kind = Kind::written, .key = "short"}};
  EXPECT_EQ(heard_up_to(*feed, "short"), written);
  // A key that is too long for a name is named by its hash, which leads to the lock.
  const std::string lengthy(512, 'x');
  options.lock_prefix = std::string(500, 'p');
  const auto far = locks_of(options);
  const auto far_feed = far.follow_grants();
  ASSERT_TRUE(far_feed);
  const auto guard = far.lock(lengthy);
  const auto changes = far_feed->next(BootClock::now() + 10s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].key.size(), 22U);
  const auto page = far.list_raw({.only = std::vector{key(changes[0].key)}});
  ASSERT_EQ(page.locks.size(), 1U);
  EXPECT_EQ(page.locks[0].key.str(), lengthy);
}

TEST_F(RedisGrants, AreHeardWithoutAThreadAndAStopRequestEndsTheWait) {
  const auto locks = locks_of(server->unix_socket());
  std::promise<std::unique_ptr<ChangeFeed>> opened;
  locks.start(operation::FollowHeldLocks{LockChanges::grants}, {},
              [&](Result<std::unique_ptr<ChangeFeed>> feed) { opened.set_value(*std::move(feed)); });
  const auto feed = opened.get_future().get();
  ASSERT_TRUE(feed);
  std::promise<std::vector<Change>> heard;
  feed->wait(never, {}, [&](Result<std::vector<Change>> changes) { heard.set_value(*std::move(changes)); });
  const auto guard = locks.lock("a");
  EXPECT_EQ(heard.get_future().get(), (std::vector<Change>{{.kind = Kind::acquired, .key = "a"}}));
  std::stop_source stop;
  std::promise<bool> ended;
  feed->wait(never, stop.get_token(),
             [&](Result<std::vector<Change>> changes) { ended.set_value(changes->empty()); });
  stop.request_stop();
  EXPECT_TRUE(ended.get_future().get());
  EXPECT_TRUE(feed->next(BootClock::now() + 1ms).empty()) << "the deadline";
}

TEST_F(RedisGrants, AfterALostConnectionAndAFlushAnythingMayHaveHappened) {
  const auto locks = locks_of(server->unix_socket());
  const auto feed = locks.follow_grants();
  ASSERT_TRUE(feed);
  auto raw = server->raw();
  raw.integer({"CLIENT", "KILL", "TYPE", "pubsub"});
  const auto anything = std::vector<Change>{{.kind = Kind::anything}};
  EXPECT_EQ(feed->next(BootClock::now() + 10s), anything);
  const auto guard = locks.lock("a");
  EXPECT_TRUE(is_named(*feed, "a"));
  raw.text({"FLUSHALL"});
  EXPECT_EQ(feed->next(BootClock::now() + 10s), anything);
}

TEST_F(RedisGrants, WithoutTheRightThereIsNoFeedAndNothingElseIsMissing) {
  for (const auto* rule : {"-client|tracking", "-client|id", "-subscribe"}) {
    const auto locks = locks_of(acl_user(*server, server->tcp(), {rule}));
    EXPECT_FALSE(locks.follow_grants()) << rule;
    const auto guard = locks.lock("a");
    EXPECT_TRUE(locks.is_locked("a"));
    EXPECT_EQ(locks.list_raw().locks.size(), 1U);
  }
  auto native = server->tcp();
  native.layout = RedisLayout::native;
  native.lock_prefix = "";
  EXPECT_FALSE(locks_of(native).follow_grants()) << "every key of the server would be reported";
}

TEST_F(RedisGrants, AFloodPausesTheFeed) {
  const auto locks = locks_of(server->unix_socket());
  const auto feed = locks.follow_grants();
  ASSERT_TRUE(feed);
  auto raw = server->raw();
  const auto tracking = [&] {
    return raw.text({"INFO", "clients"}).find("tracking_clients:1") != std::string::npos;
  };
  EXPECT_TRUE(eventually(tracking));
  // In one message, which costs more than the budget ever has: however slowly the feed reads, it cannot
  // afford it.
  std::vector<std::string> flood{"MSET"};
  for (int i = 0; i < 150'000; ++i) {
    flood.push_back("syncguard:fence:syncguard:" + std::to_string(i));
    flood.emplace_back("1");
  }
  raw.text(flood);
  EXPECT_TRUE(eventually([&] { return !tracking(); })) << "when the feed has read it all";
  std::set<Kind> kinds;
  for (const auto& change : feed->next(BootClock::now() + 10s)) kinds.insert(change.kind);
  EXPECT_TRUE(kinds.contains(Kind::anything));
}

TEST(RedisClusterGrants, AreNamedByEveryMaster) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisCluster cluster;
  const auto viewer = locks_of(cluster.options()), holder = locks_of(cluster.options());
  const auto feed = viewer.follow_grants();
  ASSERT_TRUE(feed);
  std::set<std::string> unheard;
  std::vector<Guard> guards;
  for (int i = 0; i < 12; ++i) {
    guards.push_back(holder.lock("lock " + std::to_string(i)));
    unheard.insert(guards.back().key());
  }
  for (const auto deadline = BootClock::now() + 10s; !unheard.empty() && BootClock::now() < deadline;) {
    for (const auto& change : feed->next(deadline)) unheard.erase(change.key);
  }
  EXPECT_TRUE(unheard.empty()) << *unheard.begin() << " and others";
}

/// The viewer sends no call that would notice the failover.
TEST(RedisClusterGrants, AreNamedByThePromotedReplica) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisCluster cluster({.replicas = true});
  const auto viewer = locks_of(cluster.options()), holder = locks_of(cluster.options());
  const auto feed = viewer.follow_grants();
  ASSERT_TRUE(feed);
  const auto owner = cluster.owner_of_key("syncguard:k");
  cluster.node(owner).kill();
  ASSERT_TRUE(eventually([&] { return cluster.is_master(owner + RedisCluster::masters); }, 30s));
  bool heard = false;
  for (const auto deadline = BootClock::now() + 15s; !heard && BootClock::now() < deadline;) {
    holder.lock("k", {.wait = 10s}).release();
    heard = is_named(*feed, "k", BootClock::now() + 1s);
  }
  EXPECT_TRUE(heard);
}

}  // namespace
}  // namespace holdfast::test
