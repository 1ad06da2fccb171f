// Renewals on an engine that does not block: nobody waits for them, and they for no other.

#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <holdfast/redis.hpp>
#include <vector>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/hooked_backend.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

/// An engine whose requests wait at a gate.
class Renewals : public testing::Test {
 protected:
  Gate gate;
  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  Locks locks{std::make_shared<HookedBackend>(memory, gate.hook())};
};

TEST_F(Renewals, AreSentThoughTheOnesBeforeAreNotAnswered) {
  std::vector<Guard> guards;
  for (int i = 0; i < 100; ++i) guards.push_back(locks.lock(std::to_string(i), {.ttl = 1500ms}));
  gate.close();
  EXPECT_TRUE(eventually([&] { return gate.held_up() == 100; })) << gate.held_up();
  gate.open();
  for (const auto& guard : guards) EXPECT_TRUE(guard.still_held());
}

TEST_F(Renewals, ThatAreNeverAnsweredDoNotKeepTheHolderFromBeingTold) {
  const auto guard = locks.lock("k", {.ttl = 150ms});
  gate.close();
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::unproven);
  ASSERT_EQ(gate.held_up(), 1U) << "extends of one guard do not overlap";
  gate.open();
  EXPECT_FALSE(guard.still_held()) << "what was lost stays lost";
  EXPECT_EQ(guard.loss_reason(), LossReason::unproven);
}

TEST_F(Renewals, AreNotOverlappedByAnExtendByHand) {
  auto guard = locks.lock("k", {.ttl = 900ms});
  gate.close();
  ASSERT_TRUE(eventually([&] { return gate.held_up() == 1; }));
  std::optional<Result<bool>> extended;
  guard.extend(60s, {}, [&](Result<bool> answer) { extended = std::move(answer); });
  EXPECT_EQ(gate.held_up(), 1U) << "it waits for its turn";
  gate.open();
  ASSERT_TRUE(extended && *extended);
  EXPECT_TRUE(**extended);
  EXPECT_GT(guard.remaining(), 50s);
}

TEST_F(Renewals, OfAReleasedGuardAreAnsweredInVain) {
  auto guard = locks.lock("k", {.ttl = 900ms});
  gate.close();
  ASSERT_TRUE(eventually([&] { return gate.held_up() == 1; }));
  guard.release_in_background();
  EXPECT_EQ(gate.held_up(), 2U);
  gate.open();
  EXPECT_FALSE(is_locked(*memory, "k"));
}

TEST(RedisRenewals, OfThousandsOfGuardsFarAwayLoseNone) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  TcpProxy proxy(server.port());
  proxy.delay(TcpProxy::Way::to_server, 25ms);
  proxy.delay(TcpProxy::Way::to_client, 25ms);
  auto options = server.tcp();
  options.port = proxy.port();
  Locks locks(make_redis_lock_backend(options).value_or_throw());

  constexpr std::size_t count = 2000;
  std::vector<Guard> guards(count);
  std::vector<std::int64_t> expires_at_ms(count);
  std::atomic<std::size_t> granted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    locks.lock(std::to_string(i), {.ttl = 3s, .wait = 60s}, {}, [&, i](Result<Guard> guard) {
      ASSERT_TRUE(guard);
      guards[i] = *std::move(guard);
      expires_at_ms[i] = guards[i].expires_at_ms();
      ++granted;
    });
  }
  ASSERT_TRUE(eventually([&] { return granted == count; }));
  const auto renewed = [&] {
    std::size_t all = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (guards[i].expires_at_ms() > expires_at_ms[i]) ++all;
    }
    return all;
  };
  const auto lost = [&] {
    std::size_t all = 0;
    for (const auto& guard : guards) all += guard.loss_reason() ? 1U : 0U;
    return all;
  };
  EXPECT_TRUE(eventually([&] { return renewed() == count || lost() > 0; }));
  EXPECT_EQ(lost(), 0U);
  proxy.forward();
  for (auto& guard : guards) guard.release_in_background();
}

}  // namespace
}  // namespace holdfast::test
