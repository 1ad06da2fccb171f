// Clients of a master that fails over, by a crash, by plan, by a pause: what is granted, and how soon again.

#include <gtest/gtest.h>

#include <holdfast/redis.hpp>

#include "failover_load.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_sentinels.hpp"

namespace holdfast::test {
namespace {

constexpr std::uint64_t per_epoch = 1'000'000'000;

class SentinelFailover : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

using Disturb = std::function<void(RedisSentinels&, std::size_t master)>;

/// How many replicas must acknowledge a grant: HOLDFAST_MIN_REPLICAS, for a measurement.
std::uint32_t min_replicas_of_series() {
  const char* given = std::getenv("HOLDFAST_MIN_REPLICAS");
  return given != nullptr ? static_cast<std::uint32_t>(std::atoi(given)) : 0;
}

struct Series {
  std::uint32_t min_replicas = min_replicas_of_series();
  bool loses_nothing = false;
};

/// Clients at work while `begin` starts a failover; `end` brings the old master back.
void fail_over_sentinels(const std::string& name, const Disturb& begin, const Disturb& end,
                         const Series& series = {}) {
  // For a measurement the sentinels look at their servers as often as in production.
  RedisSentinels servers({.down_after = RedisSentinels::soon_down,
                          .hurry = failover_rounds() == 1,
                          .config = {"appendonly yes"}});
  std::size_t former = 0;
  fail_over_under_load({.name = name + ", min_replicas=" + std::to_string(series.min_replicas),
                        .open =
                            [&] {
                              auto options = servers.client();
                              options.min_replicas = series.min_replicas;
                              return make_redis_lock_backend(options).value_or_throw();
                            },
                        .replicate = [&] { servers.server(servers.master()).wait_for_replicas(2); },
                        .fail_over =
                            [&] {
                              former = servers.master();
                              const auto epoch = servers.epoch();
                              begin(servers, former);
                              (void)servers.wait_for_another_master(former);
                              EXPECT_GT(servers.epoch(), epoch);
                            },
                        .restore =
                            [&] {
                              end(servers, former);
                              servers.settle();
                            },
                        .read_files =
                            [&](GrantLedger& ledger) {
                              for (std::size_t i = 0; i < servers.size(); ++i)
                                ledger.read_file_of(servers.server(i));
                            },
                        .loses_nothing = series.loses_nothing});
}

TEST_F(SentinelFailover, AKilledMasterRepeatsNoFence) {
  fail_over_sentinels(
      "killed", [](RedisSentinels& servers, std::size_t master) { servers.server(master).kill(); },
      [](RedisSentinels& servers, std::size_t master) { servers.server(master).start(); });
}

/// As docs/guide/sentinel.md says. Without the pause the old master answers until the sentinels have seen the
/// promotion, up to a second later: what it grants or renews meanwhile is lost.
TEST_F(SentinelFailover, APlannedFailoverWithPausedWritesLosesNothing) {
  fail_over_sentinels(
      "planned",
      [](RedisSentinels& servers, std::size_t master) {
        (void)servers.server(master).raw().command({"CLIENT", "PAUSE", "3000", "WRITE"});
        servers.fail_over();
      },
      [](RedisSentinels& servers, std::size_t master) {
        (void)servers.server(master).raw().command({"CLIENT", "UNPAUSE"});
      },
      {.loses_nothing = true});
}

TEST_F(SentinelFailover, AMasterThatIsPausedPastItsFailoverRepeatsNoFence) {
  fail_over_sentinels(
      "paused", [](RedisSentinels& servers, std::size_t master) { servers.server(master).pause(); },
      [](RedisSentinels& servers, std::size_t master) { servers.server(master).resume(); });
}

TEST_F(SentinelFailover, AKilledMasterWhoseGrantsReplicasAcknowledgeRepeatsNoFence) {
  fail_over_sentinels(
      "killed", [](RedisSentinels& servers, std::size_t master) { servers.server(master).kill(); },
      [](RedisSentinels& servers, std::size_t master) { servers.server(master).start(); },
      {.min_replicas = 1});
}

TEST_F(SentinelFailover, AProcessThatKnowsTheNewMasterUsesTheOldOneNoMore) {
  RedisSentinels servers({.down_after = RedisSentinels::soon_down});
  const auto former = servers.master();
  // Its sentinel hangs with the master: it hears of nothing.
  auto client = servers.client();
  std::swap(client.sentinels[0], client.sentinels[2]);
  const auto backend = make_redis_lock_backend(client).value_or_throw();
  const auto first = LockId::generate();
  ASSERT_TRUE(acquire(*backend, first, "k"));
  ASSERT_FALSE(release(*backend, first, "k"));
  servers.sentinel(2).pause();
  servers.server(former).pause();
  (void)servers.wait_for_another_master(former);

  // A connection of its own, which finds the new master; the other one is still that to the old.
  const auto id = LockId::generate();
  AcquireRequest request{.id = id, .key = key("k"), .ttl = ttl(60s), .min_replicas = 1};
  std::optional<Granted> granted;
  ASSERT_TRUE(eventually([&] {
    const auto outcome = try_acquire(*backend, request);
    if (!outcome && outcome.error().effect() == Effect::id_is_spent) request.id = LockId::generate();
    if (const auto* grant = outcome ? std::get_if<Granted>(&*outcome) : nullptr) granted = *grant;
    return granted.has_value();
  }));
  EXPECT_GT(granted->fence.value(), per_epoch);
  servers.server(former).resume();
  EXPECT_FALSE(release(*backend, request.id, "k")) << "it is held at the new master";
  const auto next = acquire(*backend, LockId::generate(), "k");
  ASSERT_TRUE(next);
  EXPECT_EQ(next->fence.value(), granted->fence.value() + 1);
  const auto other = make_redis_lock_backend(servers.client()).value_or_throw();
  EXPECT_FALSE(acquire(*other, LockId::generate(), "k")) << "two holders, with one fence";
  servers.sentinel(2).resume();
}

TEST_F(SentinelFailover, InASplitBrainTheDeposedMasterGrantsLowerFences) {
  RedisSentinels servers({.down_after = RedisSentinels::soon_down});
  const auto former = servers.master();
  auto cut_off = servers.client();
  auto informed = cut_off;
  cut_off.sentinels.erase(cut_off.sentinels.begin(), cut_off.sentinels.begin() + 2);
  informed.sentinels.pop_back();
  const auto old_side = make_redis_lock_backend(cut_off).value_or_throw();
  const auto new_side = make_redis_lock_backend(informed).value_or_throw();
  const auto first = LockId::generate();
  const auto before = acquire(*old_side, first, "k");
  ASSERT_TRUE(before);
  ASSERT_FALSE(release(*old_side, first, "k"));

  // The third sentinel and its client hear nothing of the failover; when the old master is back, no sentinel
  // is there to tell it.
  servers.sentinel(2).pause();
  servers.server(former).pause();
  (void)servers.wait_for_another_master(former);
  std::optional<Granted> at_new;
  ASSERT_TRUE(eventually([&] {
    const auto outcome = try_acquire(*new_side, LockId::generate(), "k", 60s);
    const auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
    if (granted != nullptr) at_new = *granted;
    return at_new.has_value();
  }));
  servers.sentinel(0).pause();
  servers.sentinel(1).pause();
  servers.server(former).resume();

  std::vector<std::uint64_t> at_old;
  for (int i = 0; i < 10; ++i) {
    const auto id = LockId::generate();
    const auto granted = acquire(*old_side, id, "k");
    ASSERT_TRUE(granted) << "two masters, two holders: that is what a fence is for";
    at_old.push_back(granted->fence.value());
    EXPECT_FALSE(release(*old_side, id, "k"));
  }
  EXPECT_GT(at_old.front(), before->fence.value());
  EXPECT_LT(at_old.back(), at_new->fence.value());
  EXPECT_GT(at_new->fence.value(), per_epoch);

  for (std::size_t i = 0; i < RedisSentinels::sentinel_count; ++i) servers.sentinel(i).resume();
  int attempt = 0;
  EXPECT_TRUE(eventually(
      [&] {
        const auto outcome =
            try_acquire(*old_side, LockId::generate(), "another" + std::to_string(++attempt), 60s);
        const auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
        return granted != nullptr && granted->fence.value() > per_epoch;
      },
      30s))
      << "its sentinel hears of the switch, and so does the client";
}

}  // namespace
}  // namespace holdfast::test
