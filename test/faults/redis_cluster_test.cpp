// A Redis Cluster whose masters die, pause and hand slots around, while locks are acquired and released.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "failover_load.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_cluster.hpp"

namespace holdfast::test {
namespace {

class ClusterFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  void start(bool replicas) {
    cluster.emplace(RedisCluster::Options{.replicas = replicas, .node_timeout = 500ms, .config = config});
  }

  [[nodiscard]] std::shared_ptr<LockBackend> open() const {
    auto options = cluster->options();
    options.layout = layout;
    options.lock_prefix = prefix;
    return make_redis_lock_backend(options).value_or_throw();
  }

  using Disturb = std::function<void(std::size_t owner, std::size_t replica)>;
  using Restore = std::function<void(std::size_t former_owner)>;
  void fail_over(const std::string& name, const Disturb& begin, const Restore& end);
  [[nodiscard]] std::optional<std::size_t> listened_to_at();
  void wake_after(const std::function<void(std::size_t owner)>& leave);
  void lose_grants_in_a_failover();
  void move_slots_back_and_forth();

  /// The native layout needs no hash tag; here it tells which node has the locks.
  std::string prefix = "{" + private_prefix() + "}";
  RedisLayout layout = RedisLayout::documented;
  std::vector<std::string> config;
  std::optional<RedisCluster> cluster;
};

/// Threads that acquire and release a few locks for as long as this lives, and what they saw.
class ClusterLoad {
 public:
  explicit ClusterLoad(const std::function<std::shared_ptr<LockBackend>()>& open, int keys = 3)
      : keys_(keys) {
    for (int backend = 0; backend < 2; ++backend) {
      auto shared = open();
      for (int thread = 0; thread < 2; ++thread) {
        threads_.emplace_back([this, shared](const std::stop_token& stop) { work(*shared, stop); });
      }
    }
  }
  void stop() { threads_.clear(); }

  [[nodiscard]] bool goes_on(int grants) {
    const auto before = grants_.load();
    return eventually([&] { return grants_ >= before + grants; }, 30s);
  }
  [[nodiscard]] int grants() const { return grants_; }
  [[nodiscard]] int repeated_fences() const { return repeated_; }
  [[nodiscard]] std::vector<std::string> errors() {
    const std::lock_guard lock(mutex_);
    return errors_;
  }
  [[nodiscard]] milliseconds longest() const { return milliseconds(longest_ms_); }

 private:
  void work(LockBackend& backend, const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      const auto name = "key" + std::to_string(i % keys_);
      const auto id = LockId::generate();
      const auto begun = BootClock::now();
      const auto outcome = try_acquire(backend, id, name, 5s);
      note(begun, outcome.ok() ? nullptr : &outcome.error());
      const auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
      if (granted == nullptr) {
        std::this_thread::yield();
        continue;
      }
      {
        const std::lock_guard lock(mutex_);
        if (!fences_.emplace(name, granted->fence.value()).second) ++repeated_;
      }
      ++grants_;
      const auto released_at = BootClock::now();
      const auto released = try_release(backend, {.lock = {.id = id, .key = key(name)}});
      // Repeated after a lost reply, and without a holder's proof: it may be unknown.
      const bool is_unknown = !released && released.error().code() == ErrorCode::NetworkTimeout;
      note(released_at, released.ok() || is_unknown ? nullptr : &released.error());
    }
  }
  void note(BootTime begun, const Error* error) {
    const auto took = std::chrono::duration_cast<milliseconds>(BootClock::now() - begun).count();
    for (auto seen = longest_ms_.load(); seen < took && !longest_ms_.compare_exchange_weak(seen, took);) {
    }
    if (error == nullptr) return;
    const std::lock_guard lock(mutex_);
    errors_.emplace_back(error->what());
  }

  const int keys_;
  std::mutex mutex_;
  std::set<std::pair<std::string, std::uint64_t>> fences_;
  std::vector<std::string> errors_;
  std::atomic<int> grants_ = 0, repeated_ = 0;
  std::atomic<std::int64_t> longest_ms_ = 0;
  std::vector<std::jthread> threads_;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

void ClusterFaults::lose_grants_in_a_failover() {
  start(true);
  const auto backend = open();
  const auto owner = cluster->owner_of_key(prefix);
  const auto grant = [&] {
    const auto id = LockId::generate();
    const auto granted = acquire(*backend, id, "k");
    EXPECT_TRUE(granted);
    EXPECT_EQ(release(*backend, id, "k"), std::nullopt);
    return granted ? granted->fence.value() : 0;
  };
  const auto epoch_1 = grant();
  EXPECT_EQ(epoch_1, (owner + 1) * 1'000'000'000 + 1) << "the floor is the owner's config epoch";
  auto& replica = cluster->node(owner + RedisCluster::masters);
  cluster->node(owner).wait_for_replicas(1);
  replica.pause();
  std::uint64_t lost = 0;
  for (int i = 0; i < 5; ++i) lost = grant();
  EXPECT_EQ(lost, epoch_1 + 5);
  cluster->node(owner).kill();
  replica.resume();
  const auto next = grant();
  EXPECT_GT(next, lost);
  EXPECT_GE(next, 4'000'000'001U) << "a failover has a new epoch";
  EXPECT_TRUE(cluster->is_master(owner + RedisCluster::masters));
}

TEST_F(ClusterFaults, AFailoverThatLostGrantsRepeatsNoFence) {
  lose_grants_in_a_failover();
}

TEST_F(ClusterFaults, AFailoverThatLostGrantsRepeatsNoFenceInTheNativeLayout) {
  layout = RedisLayout::native;
  lose_grants_in_a_failover();
}

/// The master of the locks and its replica change places, as often as failover_rounds() says.
void ClusterFaults::fail_over(const std::string& name, const Disturb& begin, const Restore& end) {
  config = {"appendonly yes"};
  start(true);
  auto owner = cluster->owner_of_key(prefix);
  auto replica = owner + RedisCluster::masters;
  bool failed_over_before = false;
  const auto is_replica = [&](std::size_t node) {
    return cluster->node(node).raw().text({"INFO", "replication"}).find("master_link_status:up") !=
           std::string::npos;
  };
  fail_over_under_load({.name = name,
                        .open = [&] { return open(); },
                        .replicate = [&] { cluster->node(owner).wait_for_replicas(1); },
                        .fail_over =
                            [&] {
                              if (std::exchange(failed_over_before, true)) cluster->allow_next_failover();
                              begin(owner, replica);
                              EXPECT_TRUE(eventually([&] { return cluster->is_master(replica); }, 30s));
                            },
                        .restore =
                            [&] {
                              end(owner);
                              EXPECT_TRUE(eventually([&] { return is_replica(owner); }, 30s));
                              std::swap(owner, replica);
                              cluster->node(owner).wait_for_replicas(1);
                            },
                        .read_files =
                            [&](GrantLedger& ledger) {
                              for (std::size_t i = 0; i < cluster->size(); ++i)
                                ledger.read_file_of(cluster->node(i));
                            }});
}

TEST_F(ClusterFaults, AKilledMasterUnderLoadIsReplaced) {
  fail_over(
      "cluster, killed", [&](std::size_t owner, std::size_t) { cluster->node(owner).kill(); },
      [&](std::size_t owner) { cluster->node(owner).start(); });
}

TEST_F(ClusterFaults, AMasterThatWasStoppedAndDeposedGrantsNothingTwice) {
  fail_over(
      "cluster, paused", [&](std::size_t owner, std::size_t) { cluster->node(owner).pause(); },
      [&](std::size_t owner) { cluster->node(owner).resume(); });
}

TEST_F(ClusterFaults, PlannedFailoversAreNotSeenByUsers) {
  fail_over(
      "cluster, planned", [&](std::size_t, std::size_t replica) { cluster->fail_over_to(replica); },
      [](std::size_t) {});
}

void ClusterFaults::move_slots_back_and_forth() {
  start(false);
  const auto slot = cluster->slot_of(prefix);
  const auto owner = cluster->owner_of(slot);
  const auto other = (owner + 1) % RedisCluster::masters;
  ClusterLoad load([&] { return open(); });
  ASSERT_TRUE(load.goes_on(100));
  for (int round = 0; round < 10 * failover_rounds(); ++round) {
    cluster->migrate(slot, owner, other);
    EXPECT_TRUE(load.goes_on(20));
    // In the middle: some keys here, some there.
    cluster->begin_migration(slot, other, owner);
    std::this_thread::sleep_for(5ms);
    cluster->move_keys(slot, other, owner);
    std::this_thread::sleep_for(5ms);
    cluster->end_migration(slot, other, owner);
    EXPECT_TRUE(load.goes_on(20));
  }
  load.stop();
  EXPECT_EQ(load.repeated_fences(), 0);
  EXPECT_EQ(joined(load.errors()), "");
  std::cout << load.grants() << " grants, longest call " << load.longest().count() << " ms\n";
}

TEST_F(ClusterFaults, ReshardingBackAndForthIsNotSeenByUsers) {
  move_slots_back_and_forth();
}

TEST_F(ClusterFaults, ReshardingBackAndForthIsNotSeenByUsersOfTheNativeLayout) {
  layout = RedisLayout::native;
  move_slots_back_and_forth();
}

TEST_F(ClusterFaults, ReshardingAWholeMasterIsNotSeenByUsersOfTheNativeLayout) {
  layout = RedisLayout::native;
  prefix = private_prefix();
  start(false);
  ClusterLoad load([&] { return open(); }, 1000);
  ASSERT_TRUE(load.goes_on(2000));
  const auto begun = BootClock::now();
  // A measurement moves all slots of a master there and back, as often as it is asked for.
  const int count = failover_rounds() == 1 ? 500 : int{RedisCluster::slots} / int{RedisCluster::masters};
  for (int round = 0; round < failover_rounds(); ++round) {
    cluster->migrate_slots(0, count, 0, 1);
    EXPECT_TRUE(load.goes_on(100));
    cluster->migrate_slots(0, count, 1, 0);
    EXPECT_TRUE(load.goes_on(100));
  }
  const auto took = BootClock::now() - begun;
  load.stop();
  EXPECT_EQ(load.repeated_fences(), 0);
  EXPECT_EQ(joined(load.errors()), "");
  std::cout << 2 * failover_rounds() * count << " slots moved in "
            << std::chrono::duration_cast<milliseconds>(took).count() << " ms, " << load.grants()
            << " grants meanwhile, longest call " << load.longest().count() << " ms\n";
}

TEST_F(ClusterFaults, AGuardSurvivesTheLossOfItsMaster) {
  start(true);
  const auto owner = cluster->owner_of_key(prefix);
  Locks locks(open());
  auto guard = locks.lock("k", {.ttl = 4s});
  ASSERT_TRUE(guard.extend(4s));
  cluster->node(owner).wait_for_replicas(1);
  cluster->node(owner).kill();
  ASSERT_TRUE(eventually([&] { return cluster->is_master(owner + RedisCluster::masters); }, 30s));
  // Longer than the lease: it was renewed at the new master.
  const auto until = BootClock::now() + 5s;
  EXPECT_TRUE(eventually([&] { return !guard.still_held() || BootClock::now() > until; }, 30s));
  EXPECT_TRUE(guard.still_held());
  EXPECT_TRUE(guard.release());
}

/// The node that has a subscription to the sharded channel of this lock; empty if none has.
std::optional<std::size_t> ClusterFaults::listened_to_at() {
  for (std::size_t i = 0; i < cluster->size(); ++i) {
    if (cluster->node(i).pid() < 0) continue;
    if (cluster->node(i).raw().text({"PUBSUB", "SHARDCHANNELS"}).find(prefix) != std::string::npos) return i;
  }
  return std::nullopt;
}

/// A waiter of the native layout whose slot leaves its node: by `leave`, which returns when it is at another.
void ClusterFaults::wake_after(const std::function<void(std::size_t owner)>& leave) {
  layout = RedisLayout::native;
  start(true);
  const auto backend = open();
  const auto own = LockId::generate();
  const auto owner = cluster->owner_of_key(prefix);
  ASSERT_TRUE(acquire(*backend, own, "k"));
  BootTime woken = never;
  std::jthread waiter([&] {
    const auto guard = Locks(backend).lock("k", {.wait = 60s, .base_delay = 2s, .max_delay = 2s});
    woken = BootClock::now();
  });
  ASSERT_TRUE(eventually([&] { return listened_to_at() == owner; }, 10s));
  cluster->node(owner).wait_for_replicas(1);
  leave(owner);
  EXPECT_TRUE(eventually([&] { return listened_to_at() && listened_to_at() != owner; }, 20s))
      << "it subscribes where the slot is now";
  const auto released = BootClock::now();
  EXPECT_EQ(release(*backend, own, "k"), std::nullopt);
  waiter.join();
  EXPECT_LT(woken - released, 1s) << "woken, before it would have looked again";
}

TEST_F(ClusterFaults, AWaiterFollowsItsSlotToAnotherMaster) {
  wake_after([&](std::size_t owner) {
    cluster->migrate(cluster->slot_of(prefix), owner, (owner + 1) % RedisCluster::masters);
  });
}

TEST_F(ClusterFaults, AWaiterFollowsItsSlotToThePromotedReplica) {
  wake_after([&](std::size_t owner) {
    cluster->node(owner).kill();
    ASSERT_TRUE(eventually([&] { return cluster->is_master(owner + RedisCluster::masters); }, 30s));
  });
}

TEST_F(ClusterFaults, AWaiterIsWokenByAReleaseAtAnotherNode) {
  start(false);
  const auto backend = open();
  const auto own = LockId::generate();
  ASSERT_TRUE(acquire(*backend, own, "k"));
  std::jthread holder([&] {
    EXPECT_TRUE(eventually([&] {
      for (std::size_t i = 0; i < cluster->size(); ++i) {
        if (cluster->node(i).raw().text({"PUBSUB", "CHANNELS"}).find("wake") != std::string::npos)
          return true;
      }
      return false;
    }));
    EXPECT_EQ(release(*backend, own, "k"), std::nullopt);
  });
  const BootTime before = BootClock::now();
  const auto guard =
      Locks(backend).lock("k", {.wait = 60s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
  EXPECT_LT(BootClock::now() - before, 20s);
}

}  // namespace
}  // namespace holdfast::test
