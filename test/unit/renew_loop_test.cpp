#include "locks/renew_loop.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "locks/proof.hpp"

namespace holdfast::locks {
namespace {

using namespace std::chrono_literals;
using Step = RenewLoop::Step;

constexpr BootTime granted_at = BootTime(1000s);
const Ttl ttl = *Ttl::of(30s);

/// Without a notice, so that a lease is lost as late as possible.
Notice notice(std::optional<std::chrono::milliseconds> wanted = 0ms, std::chrono::milliseconds of = 30s,
              std::chrono::milliseconds max_hold = 0ms) {
  EXPECT_FALSE(wanted && Notice::refusal(*wanted, of, max_hold, "ttl"));
  return Notice(wanted);
}

RenewLoop loop(bool auto_renew = true, std::chrono::milliseconds max_hold = 0ms) {
  return {ttl, granted_at, auto_renew, max_hold, notice()};
}

TEST(Proof, RunsFromTheSendLessAMillisecondAndAThousandth) {
  EXPECT_EQ(proof_end(granted_at, ttl), granted_at + 30s - 1ms - 30ms);
  EXPECT_EQ(loop().proven_until(), proof_end(granted_at, ttl));
}

TEST(RenewLoop, RenewsAfterAThird) {
  auto lease = loop();
  EXPECT_EQ(lease.next_tick(), granted_at + 10s);
  EXPECT_EQ(lease.tick(granted_at + 10s - 1ns), Step::none);
  EXPECT_EQ(lease.tick(granted_at + 10s), Step::extend);
  EXPECT_EQ(lease.tick(granted_at + 10s), Step::none) << "extends never overlap";
}

TEST(RenewLoop, RenewsAtOnceWhenToldToAndThenAsBefore) {
  auto lease = loop();
  const auto next = lease.next_tick();
  lease.check_at_once();
  EXPECT_LE(lease.next_tick(), granted_at);
  EXPECT_EQ(lease.tick(granted_at + 1s), Step::extend);
  lease.extend_sent(granted_at + 1s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.tick(granted_at + 1s), Step::none);
  EXPECT_EQ(lease.next_tick(), next + 1s);
}

TEST(RenewLoop, OneThatIsNotToBeRenewedIsLookedUpAtOnceAndKeepsItsLease) {
  for (auto lease : {loop(false), loop(true, 20s)}) {
    const auto next = lease.next_tick();
    const auto proven = lease.proven_until();
    lease.check_at_once();
    EXPECT_LE(lease.next_tick(), granted_at);
    EXPECT_EQ(lease.tick(granted_at + 1s), Step::look_up);
    EXPECT_EQ(lease.tick(granted_at + 1s), Step::none) << "one is under way";
    lease.look_up_found_it();
    EXPECT_EQ(lease.tick(granted_at + 1s), Step::none);
    EXPECT_EQ(lease.next_tick(), next);
    EXPECT_EQ(lease.proven_until(), proven);
    EXPECT_FALSE(lease.lost());
  }
}

TEST(RenewLoop, ALookUpThatFailsIsRepeatedAfterAPause) {
  auto lease = loop(false);
  lease.check_at_once();
  ASSERT_EQ(lease.tick(granted_at), Step::look_up);
  lease.look_up_failed(granted_at + 1s);
  EXPECT_EQ(lease.tick(granted_at + 1s), Step::none);
  EXPECT_EQ(lease.next_tick(), granted_at + 2s);
  EXPECT_EQ(lease.tick(granted_at + 2s), Step::look_up);
}

TEST(RenewLoop, IsLostWhenALookUpFindsNothing) {
  auto lease = loop(false);
  lease.check_at_once();
  ASSERT_EQ(lease.tick(granted_at), Step::look_up);
  EXPECT_TRUE(lease.look_up_found_nothing());
  EXPECT_EQ(lease.lost(), LossReason::gone);
  EXPECT_FALSE(lease.look_up_found_nothing()) << "once";
}

TEST(RenewLoop, ARenewalThatWasNotBegunIsTriedAgainAfterAPauseAndChangesNothing) {
  auto lease = loop();
  ASSERT_EQ(lease.tick(granted_at + 10s), Step::extend);
  lease.extend_sent(granted_at + 10s, ttl);
  lease.extend_not_begun(granted_at + 11s, true);
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at, ttl));
  EXPECT_EQ(lease.tick(granted_at + 11s), Step::none) << "never a busy loop";
  EXPECT_EQ(lease.next_tick(), granted_at + 12s);
  EXPECT_EQ(lease.tick(granted_at + 12s), Step::extend);
}

TEST(RenewLoop, IsConfirmedByWhatWasAnsweredOnly) {
  auto lease = loop();
  EXPECT_EQ(lease.confirmed_at(), granted_at);
  lease.extend_sent(granted_at + 1s, ttl);
  lease.extend_unanswered(granted_at + 2s);
  EXPECT_EQ(lease.confirmed_at(), granted_at);
  lease.extend_sent(granted_at + 3s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.confirmed_at(), granted_at + 3s);
}

TEST(RenewLoop, OneThatIsUnderWayIsFollowedByOneAtOnce) {
  auto lease = loop();
  lease.extend_sent(granted_at + 1s, ttl);
  lease.check_at_once();
  EXPECT_EQ(lease.tick(granted_at + 1s), Step::none) << "extends never overlap";
  lease.extend_granted();
  EXPECT_EQ(lease.tick(granted_at + 1s), Step::extend) << "that answer may be older than the loss";
}

TEST(RenewLoop, AnAnsweredExtendProvesFromItsSendOn) {
  auto lease = loop();
  ASSERT_EQ(lease.tick(granted_at + 10s), Step::extend);
  lease.extend_sent(granted_at + 10s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at + 10s, ttl));
  EXPECT_EQ(lease.next_tick(), granted_at + 20s);
}

TEST(RenewLoop, WhileAnExtendIsUnansweredTheLesserDeadlineCounts) {
  auto lease = loop();
  const Ttl shorter = *Ttl::of(1s);
  lease.extend_sent(granted_at + 1s, shorter);
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at + 1s, shorter));
  lease.extend_unanswered(granted_at + 1s);
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at + 1s, shorter)) << "it may have taken effect";
  auto longer = loop();
  longer.extend_sent(granted_at + 1s, *Ttl::of(90s));
  EXPECT_EQ(longer.proven_until(), proof_end(granted_at, ttl));
}

TEST(RenewLoop, AShortExtendUnderWayIsNotWarnedOfAsTheLongLeaseBeforeIt) {
  auto lease = loop();
  const Ttl shorter = *Ttl::of(30ms);
  lease.extend_sent(granted_at + 1s, shorter);
  EXPECT_EQ(lease.tick(granted_at + 1s), Step::none) << "there is time for the answer";
  EXPECT_EQ(lease.lose_at(), proof_end(granted_at + 1s, shorter) - 1ms);
}

TEST(RenewLoop, AnExtendThatWasStoppedBeforeItBeganChangesNothing) {
  auto lease = loop();
  const auto next = lease.next_tick();
  lease.extend_sent(granted_at + 1s, *Ttl::of(1s));
  lease.extend_not_begun(granted_at + 1s, false);
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at, ttl));
  EXPECT_EQ(lease.provable_ttl(), ttl);
  EXPECT_EQ(lease.next_tick(), next);
}

TEST(RenewLoop, AfterAnUnansweredExtendNoMoreThanItsTtlIsEverProven) {
  auto lease = loop();
  const Ttl shorter = *Ttl::of(6s);
  lease.extend_sent(granted_at + 1s, shorter);
  lease.extend_unanswered(granted_at + 2s);
  EXPECT_EQ(lease.next_tick(), granted_at + 2s + 200ms)
      << "tries again after a thirtieth of what can be proven";
  lease.extend_sent(granted_at + 3s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at + 3s, shorter)) << "the unanswered one may come late";
  EXPECT_EQ(lease.next_tick(), granted_at + 5s) << "the renewals keep up with it";
  EXPECT_EQ(lease.ttl(), ttl) << "they still ask for what the holder asked for";
  EXPECT_EQ(lease.provable_ttl(), shorter);
  lease.extend_sent(granted_at + 5s, *Ttl::of(2s));
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at + 5s, *Ttl::of(2s)))
      << "an even shorter one is no exception";
}

TEST(RenewLoop, TheShortestUnansweredExtendCountsAndLongerOnesDoNot) {
  auto lease = loop();
  for (const auto length : {90s, 20s, 60s}) {
    lease.extend_sent(granted_at + 1s, *Ttl::of(length));
    lease.extend_unanswered(granted_at + 1s);
  }
  lease.extend_sent(granted_at + 2s, *Ttl::of(90s));
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at + 2s, *Ttl::of(20s)));
}

TEST(RenewLoop, UnansweredRenewalsOfOneTtlChangeNothingOnceOneIsAnswered) {
  auto lease = loop();
  lease.extend_sent(granted_at + 10s, ttl);
  lease.extend_unanswered(granted_at + 11s);
  lease.extend_sent(granted_at + 12s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), proof_end(granted_at + 12s, ttl));
  EXPECT_EQ(lease.next_tick(), granted_at + 22s);
}

/// An engine that carries out unanswered extends whenever it likes, or never.
class LateEngine {
 public:
  explicit LateEngine(BootTime expiry) : expiry_(expiry) {}

  void carry_out(BootTime at, Ttl length) { expiry_ = at + length.length(); }
  void keep_for_later(Ttl length) { late_.push_back(length); }
  void carry_out_one_late(BootTime at, std::size_t which) {
    if (late_.empty()) return;
    const auto one = late_.begin() + static_cast<std::ptrdiff_t>(which % late_.size());
    carry_out(at, *one);
    late_.erase(one);
  }
  [[nodiscard]] BootTime expiry() const { return expiry_; }

 private:
  BootTime expiry_;
  std::vector<Ttl> late_;
};

TEST(RenewLoop, NeverProvesMoreThanTheEngineCountsHoweverLateExtendsComeIn) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto upto = [&](std::uint32_t n) { return random() % n; };
    auto lease = loop();
    BootTime now = granted_at;
    LateEngine engine(granted_at + ttl.length());
    for (int step = 0; step < 100; ++step) {
      now += std::chrono::milliseconds(upto(1500));
      if (lease.tick(now) == Step::lose) break;
      const Ttl length = *Ttl::of(std::chrono::seconds(2 + upto(40)));
      lease.extend_sent(now, length);
      if (upto(4) == 0) engine.carry_out_one_late(now, upto(100));
      ASSERT_LE(lease.proven_until(), engine.expiry())
          << "seed " << seed << ", step " << step << ", under way";
      const auto reply = now + std::chrono::milliseconds(upto(300));
      if (upto(3) != 0) {
        engine.carry_out(now + (reply - now) / 2, length);
        lease.extend_granted();
      } else {
        engine.keep_for_later(length);
        lease.extend_unanswered(reply);
      }
      now = reply;
      if (upto(2) == 0) engine.carry_out_one_late(now, upto(100));
      ASSERT_LE(lease.proven_until(), engine.expiry()) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(RenewLoop, TriesAgainUntilTheDeadlineThenIsLostBeforeIt) {
  auto lease = loop();
  BootTime now = granted_at;
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
  EXPECT_EQ(now, lease.proven_until() - 50ms) << "a notice of zero leaves a thread the time to wake up";
  EXPECT_EQ(lease.lost(), LossReason::unproven);
  EXPECT_EQ(lease.next_tick(), never);
}

TEST(RenewLoop, IsLostThoughAnExtendIsStillUnderWay) {
  auto lease = loop();
  ASSERT_EQ(lease.tick(granted_at + 10s), Step::extend);
  lease.extend_sent(granted_at + 10s, ttl);
  EXPECT_EQ(lease.tick(lease.lose_at()), Step::lose);
  lease.extend_granted();
  EXPECT_EQ(lease.lost(), LossReason::unproven) << "once lost, it stays lost";
  EXPECT_EQ(lease.tick(granted_at + 20s), Step::none);
}

TEST(RenewLoop, IsLostAtOnceWhenTheEngineKnowsNothingOfIt) {
  auto lease = loop();
  lease.extend_sent(granted_at + 1s, ttl);
  EXPECT_TRUE(lease.extend_found_nothing());
  EXPECT_EQ(lease.lost(), LossReason::gone);
  EXPECT_EQ(lease.next_tick(), never) << "a lost lock is never created again";
}

TEST(RenewLoop, WithoutRenewalItIsLostWhenTheLeaseEnds) {
  auto lease = loop(false);
  EXPECT_EQ(lease.next_tick(), proof_end(granted_at, ttl) - 50ms);
  EXPECT_EQ(lease.tick(lease.next_tick()), Step::lose);
}

TEST(RenewLoop, MaxHoldEndsItHoweverOftenItWasRenewed) {
  auto lease = loop(true, 35s);
  ASSERT_EQ(lease.tick(granted_at + 10s), Step::extend);
  lease.extend_sent(granted_at + 10s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.proven_until(), granted_at + 35s);
  EXPECT_EQ(lease.next_tick(), granted_at + 35s - 50ms) << "no renewal beyond the end";
  EXPECT_EQ(lease.tick(granted_at + 35s), Step::lose);
  EXPECT_EQ(lease.lost(), LossReason::max_hold);
}

TEST(RenewLoop, AManualExtendChangesThePeriod) {
  auto lease = loop();
  lease.extend_sent(granted_at + 1s, *Ttl::of(90s));
  lease.extend_granted();
  EXPECT_EQ(lease.ttl().length(), 90s);
  EXPECT_EQ(lease.next_tick(), granted_at + 31s);
}

TEST(RenewLoop, GuardsThatAreDueAtAboutTheSameTimeAreRenewedTogether) {
  RenewLoop first(ttl, granted_at, true, 0ms, {});
  RenewLoop second(ttl, granted_at + 60ms, true, 0ms, {});
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(first.next_tick(), second.next_tick());
    const BootTime now = first.next_tick() + 1ms;  // the timer is a little late
    for (auto* const lease : {&first, &second}) {
      ASSERT_EQ(lease->tick(now), Step::extend);
      lease->extend_sent(now, ttl);
      lease->extend_granted();
    }
  }
}

TEST(RenewLoop, NeverLaterThanAfterAThirdAndHardlySooner) {
  for (const auto length : {10ms, 999ms, 6000ms, 31'000ms, 3'600'000ms}) {
    for (const auto offset : {0ns, 1ns, 123'456'789ns, 987'654'321ns}) {
      const BootTime sent = granted_at + offset;
      const BootTime next = RenewLoop(*Ttl::of(length), sent, true, 0ms, {}).next_tick();
      const auto third = BootClock::duration(length) / 3;
      EXPECT_LE(next, sent + third) << length.count() << " ms";
      EXPECT_GE(next, sent + third - third / 64) << length.count() << " ms";
    }
  }
}

TEST(RenewLoopNotice, ByDefaultAHolderHasASixthOfTheTtlToStopAndAtMostFiveSeconds) {
  const auto left_when_lost = [](std::chrono::milliseconds length) {
    const RenewLoop lease(*Ttl::of(length), granted_at, false, 0ms, notice(std::nullopt, length));
    return lease.proven_until() - lease.lose_at();
  };
  EXPECT_EQ(left_when_lost(6s), 1s);
  EXPECT_EQ(left_when_lost(30s), 5s);
  EXPECT_EQ(left_when_lost(10min), 5s);
  EXPECT_EQ(left_when_lost(120ms), 20ms);
  EXPECT_EQ(left_when_lost(3ms), 1ms) << "a thread has to wake up";
}

TEST(RenewLoopNotice, AHolderHasTheTimeThatItAskedFor) {
  RenewLoop lease(ttl, granted_at, true, 0ms, notice(10s));
  EXPECT_EQ(lease.lose_at(), proof_end(granted_at, ttl) - 10s);
  EXPECT_LT(lease.next_tick(), lease.lose_at() - 9s) << "a third of the ttl is left for renewals";
}

TEST(RenewLoopNotice, MoreThanAThirdOfTheTtlOrOfTheLongestHoldIsRefused) {
  EXPECT_FALSE(Notice::refusal(10s, 30s, 0ms, "ttl"));
  EXPECT_FALSE(Notice::refusal(0ms, 30s, 0ms, "ttl"));
  const auto message = [](const std::optional<Error>& refused) {
    EXPECT_EQ(refused.value().code(), ErrorCode::InvalidArgument);
    return refused->message();
  };
  EXPECT_EQ(message(Notice::refusal(10'001ms, 30s, 0ms, "ttl")),
            "invalid notice: 10001 ms is more than a third of the ttl of 30000 ms. Use a longer ttl or a "
            "shorter notice");
  EXPECT_EQ(
      message(Notice::refusal(4s, 30s, 9s, "ttl")),
      "invalid notice: 4000 ms is more than a third of the max_hold of 9000 ms. Use a longer max_hold or "
      "a shorter notice");
  EXPECT_EQ(message(Notice::refusal(-1ms, 30s, 0ms, "ttl")), "invalid notice: it must not be negative");
}

TEST(RenewLoopNotice, ALeaseThatIsEndingStaysProvenAndNoAnswerMovesItsEnd) {
  for (const bool renews : {true, false}) {
    RenewLoop lease(ttl, granted_at, renews, 0ms, notice(5s));
    const auto end = proof_end(granted_at, ttl);
    lease.extend_sent(granted_at + 20s, ttl);
    EXPECT_EQ(lease.tick(end - 5s - 1ns), Step::none);
    EXPECT_EQ(lease.tick(end - 5s), Step::lose);
    EXPECT_EQ(lease.lost(), LossReason::unproven);
    EXPECT_EQ(lease.proven_until(), end);
    EXPECT_EQ(lease.next_tick(), never) << "nothing is sent any more";
    lease.extend_granted();
    EXPECT_EQ(lease.proven_until(), end) << "the holder was notified already";
    EXPECT_EQ(lease.confirmed_at(), granted_at);
    EXPECT_EQ(lease.lease_end(), proof_end(granted_at + 20s, ttl)) << "a release is tried for that long";
    EXPECT_EQ(lease.tick(end), Step::none) << "a loss is reported once";
  }
}

TEST(RenewLoopNotice, ALateAnswerThatTheLockIsGoneEndsTheProof) {
  RenewLoop lease(ttl, granted_at, true, 0ms, notice(5s));
  lease.extend_sent(granted_at + 20s, ttl);
  ASSERT_EQ(lease.tick(lease.lose_at()), Step::lose);
  EXPECT_FALSE(lease.extend_found_nothing()) << "the holder is notified once";
  EXPECT_EQ(lease.lost(), LossReason::unproven);
  EXPECT_LT(lease.proven_until(), granted_at);
}

TEST(RenewLoopNotice, ALockThatIsGoneIsLostAtOnceAndNothingRemains) {
  RenewLoop lease(ttl, granted_at, true, 0ms, notice(5s));
  lease.extend_sent(granted_at + 1s, ttl);
  EXPECT_TRUE(lease.extend_found_nothing());
  EXPECT_LT(lease.proven_until(), granted_at);
}

TEST(RenewLoopNotice, ARenewalInTimePostponesTheEnd) {
  RenewLoop lease(ttl, granted_at, true, 0ms, notice(10s));
  const auto last_moment = lease.lose_at() - 1ns;
  ASSERT_EQ(lease.tick(last_moment), Step::extend);
  lease.extend_sent(last_moment, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.tick(last_moment + 1ns), Step::none);
  EXPECT_EQ(lease.lose_at(), proof_end(last_moment, ttl) - 10s);
}

TEST(RenewLoopNotice, TheLongestHoldEndsWithTheSameNotice) {
  RenewLoop lease(ttl, granted_at, true, 60s, notice(5s, 30s, 60s));
  for (const auto at : {10s, 20s, 30s, 40s}) {
    ASSERT_EQ(lease.tick(granted_at + at), Step::extend);
    lease.extend_sent(granted_at + at, ttl);
    lease.extend_granted();
  }
  EXPECT_EQ(lease.next_tick(), granted_at + 55s);
  EXPECT_EQ(lease.tick(granted_at + 55s), Step::lose);
  EXPECT_EQ(lease.lost(), LossReason::max_hold);
  EXPECT_EQ(lease.proven_until(), granted_at + 60s);
}

TEST(RenewLoopNotice, ByDefaultAShortHoldHasASixthOfIt) {
  const RenewLoop lease(ttl, granted_at, true, 6s, notice(std::nullopt, 30s, 6s));
  EXPECT_EQ(lease.lose_at(), granted_at + 5s);
}

TEST(RenewLoopNotice, AShorterExtendAllowsAThirdOfIt) {
  RenewLoop lease(ttl, granted_at, true, 0ms, notice(10s));
  const Ttl shorter = *Ttl::of(6s);
  lease.extend_sent(granted_at + 1s, shorter);
  EXPECT_EQ(lease.lose_at(), proof_end(granted_at + 1s, shorter) - 2s) << "it may count already";
  lease.extend_granted();
  EXPECT_EQ(lease.lose_at(), proof_end(granted_at + 1s, shorter) - 2s);
  lease.extend_sent(granted_at + 2s, ttl);
  lease.extend_granted();
  EXPECT_EQ(lease.lose_at(), proof_end(granted_at + 2s, ttl) - 10s);
}

TEST(RenewLoopNotice, AMachineThatWasSuspendedUntilThenFindsTheRestOfItsNotice) {
  RenewLoop lease(ttl, granted_at, true, 0ms, notice(5s));
  const auto end = proof_end(granted_at, ttl);
  EXPECT_EQ(lease.tick(end - 2s), Step::lose);
  EXPECT_EQ(lease.proven_until(), end);
  RenewLoop too_late(ttl, granted_at, true, 0ms, notice(5s));
  EXPECT_EQ(too_late.tick(end + std::chrono::hours(1)), Step::lose);
  EXPECT_EQ(too_late.proven_until(), end);
}

TEST(RenewLoopRisk, AnExtendWithoutAnAnswerForASixthOfTheTtlPutsItAtRiskUntilTheNextSuccess) {
  auto lease = loop();
  ASSERT_EQ(lease.tick(granted_at + 10s), Step::extend);
  lease.extend_sent(granted_at + 10s, ttl);
  EXPECT_EQ(lease.next_tick(), granted_at + 15s);
  EXPECT_EQ(lease.tick(granted_at + 15s - 1ns), Step::none);
  EXPECT_FALSE(lease.at_risk());
  EXPECT_EQ(lease.tick(granted_at + 15s), Step::none);
  EXPECT_TRUE(lease.at_risk());
  EXPECT_EQ(lease.next_tick(), lease.lose_at());
  lease.extend_unanswered(granted_at + 16s);
  EXPECT_TRUE(lease.at_risk());
  ASSERT_EQ(lease.tick(granted_at + 17s), Step::extend);
  EXPECT_TRUE(lease.at_risk()) << "the attempt is no success";
  lease.extend_sent(granted_at + 17s, ttl);
  lease.extend_granted();
  EXPECT_FALSE(lease.at_risk());
  EXPECT_EQ(lease.next_tick(), granted_at + 27s);
}

TEST(RenewLoopRisk, ARenewalThatCannotEvenBeSentCountsFromWhenItWasDue) {
  auto lease = loop();
  ASSERT_EQ(lease.tick(granted_at + 10s), Step::extend);
  (void)lease.tick(granted_at + 15s);
  EXPECT_TRUE(lease.at_risk());
}

TEST(RenewLoopRisk, AFailedExtendPutsItAtRiskAtOnceButNotOneThatTheCallerStopped) {
  auto failed = loop();
  failed.extend_sent(granted_at + 1s, ttl);
  failed.extend_not_begun(granted_at + 1s, true);
  EXPECT_TRUE(failed.at_risk());
  auto unanswered = loop();
  unanswered.extend_sent(granted_at + 1s, ttl);
  unanswered.extend_unanswered(granted_at + 1s);
  EXPECT_TRUE(unanswered.at_risk());
  auto stopped = loop();
  stopped.extend_sent(granted_at + 1s, ttl);
  stopped.extend_not_begun(granted_at + 1s, false);
  EXPECT_FALSE(stopped.at_risk());
  (void)stopped.tick(granted_at + 9s);
  EXPECT_FALSE(stopped.at_risk()) << "there is no answer to wait for";
}

/// Leases whose extends are answered at once, renewed by hand clock.
class Crowd {
 public:
  explicit Crowd(std::size_t size) : leases_(size, RenewLoop(ttl, granted_at, true, 0ms, {})) {
    for (auto& lease : leases_) due_[lease.next_tick()].push_back(&lease);
  }
  /// Renews whatever is due first; how many that were.
  std::size_t renew() {
    const auto first = due_.extract(due_.begin());
    now_ = first.key();
    for (auto* const lease : first.mapped()) {
      EXPECT_EQ(lease->tick(now_), Step::extend);
      lease->renew_sooner(crowd_.next(now_));
      lease->extend_sent(now_, ttl);
      lease->extend_granted();
      EXPECT_GE(lease->next_tick(), now_ + 8s) << "not for the price of many more renewals";
      due_[lease->next_tick()].push_back(lease);
    }
    return first.mapped().size();
  }
  [[nodiscard]] BootTime now() const { return now_; }

 private:
  std::vector<RenewLoop> leases_;
  std::map<BootTime, std::vector<RenewLoop*>> due_;
  RenewalCrowd crowd_;
  BootTime now_;
};

TEST(RenewalCrowd, ThousandsDueAtOnceDoNotStayTogether) {
  Crowd crowd(10'000);
  EXPECT_EQ(crowd.renew(), 10'000U);
  while (crowd.now() < granted_at + 70s) (void)crowd.renew();
  std::size_t most = 0;
  while (crowd.now() < granted_at + 90s) most = std::max(most, crowd.renew());
  EXPECT_LE(most, 1024U);
  EXPECT_GE(most, 64U) << "a wake-up and a write are still for many";
}

TEST(RenewalCrowd, AFewHundredStayTogether) {
  Crowd crowd(256);
  for (int round = 0; round < 100; ++round) EXPECT_EQ(crowd.renew(), 256U);
}

TEST(RenewLoop, AnExtendOfWhichACopyMayComeLateBoundsEveryLaterProof) {
  const BootTime begin = BootTime(std::chrono::hours(1));
  RenewLoop loop(*Ttl::of(30s), begin, true, 0ms, {});
  loop.extend_sent(begin + 1s, *Ttl::of(2s));
  loop.may_be_repeated(*Ttl::of(2s));
  loop.extend_granted();
  loop.extend_sent(begin + 2s, *Ttl::of(30s));
  loop.extend_granted();
  EXPECT_LE(loop.proven_until(), begin + 4s);
  EXPECT_LE(loop.next_tick(), begin + 3s) << "and renews that much more often";
}

}  // namespace
}  // namespace holdfast::locks
