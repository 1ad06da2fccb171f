#include "locks/renew_loop.hpp"

#include <gtest/gtest.h>

#include "locks/proof.hpp"

namespace holdfast::locks {
namespace {

using namespace std::chrono_literals;
using Step = RenewLoop::Step;

constexpr BootTime t0 = BootTime(1000s);
const Ttl ttl = *Ttl::of(30s);

RenewLoop loop(bool auto_renew = true, BootTime hold_until = never) {
  return {ttl, t0, auto_renew, hold_until};
}

TEST(Proof, RunsFromTheSendLessAMillisecondAndAThousandth) {
  EXPECT_EQ(proof_end(t0, ttl), t0 + 30s - 1ms - 30ms);
  EXPECT_EQ(loop().proven_until(), proof_end(t0, ttl));
}

TEST(RenewLoop, RenewsAfterAThird) {
  auto lease = loop();
  EXPECT_EQ(lease.next_tick(), t0 + 10s);
  EXPECT_EQ(lease.tick(t0 + 10s - 1ns), Step::none);
  EXPECT_EQ(lease.tick(t0 + 10s), Step::extend);
  EXPECT_EQ(lease.tick(t0 + 10s), Step::none) << "extends never overlap";
}

TEST(RenewLoop, AnAnsweredExtendProvesFromItsSendOn) {
  auto lease = loop();
  ASSERT_EQ(lease.tick(t0 + 10s), Step::extend);
  lease.extend_sent(t0 + 10s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), proof_end(t0 + 10s, ttl));
  EXPECT_EQ(lease.next_tick(), t0 + 20s);
}

TEST(RenewLoop, WhileAnExtendIsUnansweredTheLesserDeadlineCounts) {
  auto lease = loop();
  const Ttl shorter = *Ttl::of(1s);
  lease.extend_sent(t0 + 1s, shorter);
  EXPECT_EQ(lease.proven_until(), proof_end(t0 + 1s, shorter));
  lease.extend_unanswered(t0 + 1s);
  EXPECT_EQ(lease.proven_until(), proof_end(t0 + 1s, shorter)) << "it may have taken effect";
  auto longer = loop();
  longer.extend_sent(t0 + 1s, *Ttl::of(90s));
  EXPECT_EQ(longer.proven_until(), proof_end(t0, ttl));
}

TEST(RenewLoop, TriesAgainUntilTheDeadlineThenIsLostBeforeIt) {
  auto lease = loop();
  BootTime now = t0;
  int tries = 0;
  for (;;) {
    now = lease.next_tick();
    const auto step = lease.tick(now);
    if (step == Step::lose) break;
    ASSERT_EQ(step, Step::extend);
    lease.extend_sent(now, ttl);
    lease.extend_unanswered(now);
    ++tries;
  }
  EXPECT_GT(tries, 15);
  EXPECT_LT(now, lease.proven_until());
  EXPECT_GE(now, lease.proven_until() - 50ms);
  EXPECT_EQ(lease.lost(), LossReason::unproven);
  EXPECT_EQ(lease.next_tick(), never);
}

TEST(RenewLoop, IsLostThoughAnExtendIsStillUnderWay) {
  auto lease = loop();
  ASSERT_EQ(lease.tick(t0 + 10s), Step::extend);
  lease.extend_sent(t0 + 10s, ttl);
  EXPECT_EQ(lease.tick(lease.next_tick()), Step::lose);
  lease.extend_granted();
  EXPECT_EQ(lease.lost(), LossReason::unproven) << "once lost, it stays lost";
  EXPECT_EQ(lease.tick(t0 + 20s), Step::none);
}

TEST(RenewLoop, IsLostAtOnceWhenTheEngineKnowsNothingOfIt) {
  auto lease = loop();
  lease.extend_sent(t0 + 1s, ttl);
  EXPECT_TRUE(lease.extend_found_nothing());
  EXPECT_EQ(lease.lost(), LossReason::gone);
  EXPECT_EQ(lease.next_tick(), never) << "a lost lock is never created again";
}

TEST(RenewLoop, WithoutRenewalItIsLostWhenTheLeaseEnds) {
  auto lease = loop(false);
  EXPECT_EQ(lease.next_tick(), proof_end(t0, ttl) - 50ms);
  EXPECT_EQ(lease.tick(lease.next_tick()), Step::lose);
}

TEST(RenewLoop, MaxHoldEndsItHoweverOftenItWasRenewed) {
  auto lease = loop(true, t0 + 35s);
  ASSERT_EQ(lease.tick(t0 + 10s), Step::extend);
  lease.extend_sent(t0 + 10s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), t0 + 35s);
  EXPECT_EQ(lease.next_tick(), t0 + 35s - 50ms) << "no renewal beyond the end";
  EXPECT_EQ(lease.tick(t0 + 35s), Step::lose);
  EXPECT_EQ(lease.lost(), LossReason::max_hold);
}

TEST(RenewLoop, AManualExtendChangesThePeriod) {
  auto lease = loop();
  lease.extend_sent(t0 + 1s, *Ttl::of(90s));
  lease.extend_granted();
  EXPECT_EQ(lease.ttl().length(), 90s);
  EXPECT_EQ(lease.next_tick(), t0 + 31s);
}

}  // namespace
}  // namespace holdfast::locks
