#include "queue/lease_loop.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace holdfast::queue {
namespace {

using namespace std::chrono_literals;

constexpr BootTime claimed_at = BootTime(1000s);
const Ttl lease = *Ttl::of(30s);

LeaseLoop::Granted granted(std::string task, BootTime sent = claimed_at, std::chrono::milliseconds limit = {},
                           std::optional<std::chrono::milliseconds> notice = 0ms) {
  return {.lease = {.task = std::move(task), .incarnation = "i", .fence = *Fence::of(7)},
          .sent = sent,
          .version = 3,
          .limit = limit,
          .notice = locks::Notice(notice)};
}
RenewedLease held(std::uint64_t version = 3, std::chrono::milliseconds lasts = 30s) {
  return {.is_held = true, .lasts = lasts, .version = version};
}
LeaseLoop::Answered answer(LeaseLoop& loop, const LeaseLoop::Renewal& renewal,
                           std::vector<RenewedLease> leases, BootTime at) {
  return loop.answered(renewal, Result<std::vector<RenewedLease>>(std::move(leases)), at);
}
LeaseLoop::Answered no_answer(LeaseLoop& loop, const LeaseLoop::Renewal& renewal, BootTime at) {
  return loop.answered(renewal, Error(ErrorCode::NetworkTimeout, "no answer"), at);
}
BootTime proof(BootTime sent, std::chrono::milliseconds length = 30s) {
  return sent + length - 1ms - BootClock::duration(length) / 1000;
}

TEST(LeaseLoop, AProofRunsFromBeforeTheClaimLessAMillisecondAndAThousandth) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a"));
  EXPECT_EQ(loop.proven_until(id), proof(claimed_at));
}

TEST(LeaseLoop, RenewsAllLeasesInOneRequestOnceASecond) {
  LeaseLoop loop("q", lease);
  const auto a = loop.add(granted("a"));
  const auto b = loop.add(granted("b", claimed_at + 300ms));
  EXPECT_EQ(loop.next_tick(), claimed_at + 1s);
  EXPECT_TRUE(loop.tick(claimed_at + 1s - 1ns).renewals.empty());
  const auto due = loop.tick(claimed_at + 1s);
  ASSERT_EQ(due.renewals.size(), 1U);
  const auto& renewal = due.renewals.front();
  EXPECT_EQ(renewal.ids, (std::vector{a, b}));
  EXPECT_EQ(renewal.request.owner, "q");
  EXPECT_EQ(renewal.request.lease, 30s);
  ASSERT_EQ(renewal.request.leases.size(), 2U);
  EXPECT_EQ(renewal.request.leases[1].task, "b");
  EXPECT_LT(renewal.request.deadline, proof(claimed_at));
  EXPECT_TRUE(loop.tick(claimed_at + 5s).renewals.empty()) << "renewals never overlap";
  (void)answer(loop, renewal, {held(), held()}, claimed_at + 1200ms);
  EXPECT_EQ(loop.proven_until(a), proof(claimed_at + 1s));
  EXPECT_EQ(loop.proven_until(b), proof(claimed_at + 1s));
  EXPECT_EQ(loop.next_tick(), claimed_at + 2s);
}

TEST(LeaseLoop, AShortLeaseIsRenewedAfterAThird) {
  LeaseLoop loop("q", *Ttl::of(300ms));
  (void)loop.add(granted("a"));
  EXPECT_EQ(loop.next_tick(), claimed_at + 100ms);
}

TEST(LeaseLoop, MoreLeasesThanOneRequestTakesAreSplit) {
  LeaseLoop loop("q", lease);
  for (std::size_t i = 0; i < max_renewed_leases + 1; ++i) (void)loop.add(granted(std::to_string(i)));
  const auto due = loop.tick(claimed_at + 1s);
  ASSERT_EQ(due.renewals.size(), 2U);
  EXPECT_EQ(due.renewals[0].ids.size(), max_renewed_leases);
  EXPECT_EQ(due.renewals[1].ids.size(), 1U);
  (void)no_answer(loop, due.renewals[1], claimed_at + 2s);
  EXPECT_TRUE(loop.tick(claimed_at + 4s).renewals.empty()) << "one is still unanswered";
  (void)no_answer(loop, due.renewals[0], claimed_at + 4s);
  EXPECT_EQ(loop.tick(claimed_at + 5s).renewals.size(), 2U);
}

TEST(LeaseLoop, AnUnansweredRenewalProvesNothingAndIsRepeated) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a"));
  const auto due = loop.tick(claimed_at + 1s);
  (void)no_answer(loop, due.renewals.front(), claimed_at + 11s);
  EXPECT_EQ(loop.proven_until(id), proof(claimed_at));
  EXPECT_EQ(loop.next_tick(), claimed_at + 12s);
  EXPECT_EQ(loop.tick(claimed_at + 12s).renewals.size(), 1U);
}

TEST(LeaseLoop, ALeaseIsLostBeforeItsProofEndsAndNeverRevived) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a"));
  const auto renewal = loop.tick(claimed_at + 29s).renewals.front();
  EXPECT_EQ(loop.next_tick(), proof(claimed_at) - 50ms) << "before it would be at risk";
  EXPECT_TRUE(loop.tick(proof(claimed_at) - 50ms - 1ns).lost.empty());
  const auto due = loop.tick(proof(claimed_at) - 50ms);
  ASSERT_EQ(due.lost.size(), 1U);
  EXPECT_EQ(due.lost.front().id, id);
  EXPECT_EQ(due.lost.front().why, LossReason::unproven);
  EXPECT_EQ(loop.proven_until(id), proof(claimed_at));
  (void)answer(loop, renewal, {held()}, proof(claimed_at));
  EXPECT_EQ(loop.proven_until(id), proof(claimed_at)) << "the answer came too late";
  EXPECT_TRUE(loop.tick(proof(claimed_at) + 2s).renewals.empty());
  EXPECT_TRUE(loop.tick(proof(claimed_at) + 3s).lost.empty()) << "a loss is reported once";
}

TEST(LeaseLoop, ALeaseThatTheEngineDoesNotHaveIsReportedOnce) {
  LeaseLoop loop("q", lease);
  const auto a = loop.add(granted("a"));
  const auto b = loop.add(granted("b"));
  const auto renewal = loop.tick(claimed_at + 1s).renewals.front();
  const auto news = answer(loop, renewal, {RenewedLease{}, held()}, claimed_at + 1s);
  EXPECT_EQ(news.not_held, std::vector{a});
  EXPECT_EQ(loop.proven_until(a), BootTime{});
  EXPECT_EQ(loop.proven_until(b), proof(claimed_at + 1s));
  const auto next = loop.tick(claimed_at + 2s);
  ASSERT_EQ(next.renewals.size(), 1U);
  EXPECT_EQ(next.renewals.front().ids, std::vector{b});
}

TEST(LeaseLoop, AVersionThatMovedWithoutTheHolderIsReportedOnce) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a"));
  auto renewal = loop.tick(claimed_at + 1s).renewals.front();
  EXPECT_TRUE(answer(loop, renewal, {held(3)}, claimed_at + 1s).changed.empty());
  loop.knows_version(id, 4);  // its own write
  renewal = loop.tick(claimed_at + 2s).renewals.front();
  EXPECT_TRUE(answer(loop, renewal, {held(4)}, claimed_at + 2s).changed.empty());
  renewal = loop.tick(claimed_at + 3s).renewals.front();
  EXPECT_EQ(answer(loop, renewal, {held(5)}, claimed_at + 3s).changed, std::vector{id});
  renewal = loop.tick(claimed_at + 4s).renewals.front();
  EXPECT_TRUE(answer(loop, renewal, {held(5)}, claimed_at + 4s).changed.empty());
  loop.knows_version(id, 0);  // the holder could not read it
  renewal = loop.tick(claimed_at + 5s).renewals.front();
  EXPECT_EQ(answer(loop, renewal, {held(5)}, claimed_at + 5s).changed, std::vector{id});
}

TEST(LeaseLoop, AClaimBesideALeaseThatWasLostIsRenewed) {
  LeaseLoop loop("q", lease);
  (void)loop.add(granted("a"));
  EXPECT_EQ(loop.tick(claimed_at + 31s).lost.size(), 1U);
  EXPECT_EQ(loop.next_tick(), never) << "nothing to renew";
  const auto b = loop.add(granted("b", claimed_at + 31s));
  EXPECT_EQ(loop.next_tick(), claimed_at + 32s);
  const auto due = loop.tick(claimed_at + 32s);
  ASSERT_EQ(due.renewals.size(), 1U);
  EXPECT_EQ(due.renewals.front().ids, std::vector{b});
}

TEST(LeaseLoop, AnAttemptsLimitEndsItWhateverIsRenewed) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a", claimed_at, 40s));
  EXPECT_EQ(loop.proven_until(id), proof(claimed_at));
  const auto renewal = loop.tick(claimed_at + 20s).renewals.front();
  (void)answer(loop, renewal, {held(3, 20s)}, claimed_at + 20s);
  EXPECT_LE(loop.proven_until(id), claimed_at + 40s);
  const auto due = loop.tick(claimed_at + 40s);
  ASSERT_EQ(due.lost.size(), 1U);
  EXPECT_EQ(due.lost.front().why, LossReason::max_hold);
}

TEST(LeaseLoop, ALimitThatIsShorterThanTheLeaseIsTheProof) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a", claimed_at, 2s));
  EXPECT_EQ(loop.proven_until(id), proof(claimed_at, 2s));
  EXPECT_EQ(loop.tick(claimed_at + 2s).lost.front().why, LossReason::max_hold);
}

TEST(LeaseLoop, ALimitThatTheClockCannotExpressIsNone) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a", claimed_at, std::chrono::milliseconds::max()));
  EXPECT_EQ(loop.proven_until(id), proof(claimed_at));
  EXPECT_TRUE(loop.tick(claimed_at + 1s).lost.empty());
}

TEST(LeaseLoop, ARemovedLeaseIsNeitherRenewedNorLost) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a"));
  const auto renewal = loop.tick(claimed_at + 1s).renewals.front();
  loop.remove(id);
  EXPECT_FALSE(loop.empty()) << "a renewal is under way";
  const auto news = answer(loop, renewal, {RenewedLease{}}, claimed_at + 1s);
  EXPECT_TRUE(news.not_held.empty());
  EXPECT_TRUE(loop.empty());
  EXPECT_EQ(loop.next_tick(), never);
  EXPECT_TRUE(loop.tick(claimed_at + 60s).lost.empty());
}

TEST(LeaseLoop, EachWorkerHasTheTimeToStopThatItAskedFor) {
  LeaseLoop loop("q", lease);
  const auto usual = loop.add(granted("a", claimed_at, {}, std::nullopt));
  const auto longest = loop.add(granted("b", claimed_at, {}, 10s));
  const auto renewal = loop.tick(claimed_at + 19s).renewals.front();
  auto due = loop.tick(proof(claimed_at) - 10s);
  ASSERT_EQ(due.lost.size(), 1U);
  EXPECT_EQ(due.lost.front().id, longest);
  EXPECT_EQ(loop.proven_until(longest), proof(claimed_at)) << "it is proven until then";
  due = loop.tick(proof(claimed_at) - 5s);
  ASSERT_EQ(due.lost.size(), 1U);
  EXPECT_EQ(due.lost.front().id, usual);
  (void)answer(loop, renewal, {held(), RenewedLease{}}, proof(claimed_at) - 4s);
  EXPECT_EQ(loop.proven_until(usual), proof(claimed_at)) << "an answer that comes late does not count";
  EXPECT_EQ(loop.proven_until(longest), BootTime{}) << "unless the lease is gone";
  EXPECT_TRUE(loop.tick(proof(claimed_at)).renewals.empty()) << "a lease that is ending is not renewed";
}

TEST(LeaseLoop, AnAttemptWithAShortLimitIsToldASixthOfItBeforeItsEnd) {
  LeaseLoop loop("q", lease);
  const auto id = loop.add(granted("a", claimed_at, 6s, std::nullopt));
  EXPECT_TRUE(loop.tick(proof(claimed_at, 6s) - 1s - 1ns).lost.empty());
  const auto due = loop.tick(proof(claimed_at, 6s) - 1s);
  ASSERT_EQ(due.lost.size(), 1U);
  EXPECT_EQ(due.lost.front().id, id);
  EXPECT_EQ(due.lost.front().why, LossReason::max_hold);
}

TEST(LeaseLoop, LeasesAreAtRiskWithoutAnAnswerForASixthOfThemAndNoLongerAfterASuccess) {
  LeaseLoop loop("q", lease);
  const auto a = loop.add(granted("a"));
  auto renewal = loop.tick(claimed_at + 1s).renewals.front();
  const auto later = loop.add(granted("b", claimed_at + 2s));
  EXPECT_EQ(loop.next_tick(), claimed_at + 6s);
  EXPECT_TRUE(loop.tick(claimed_at + 6s - 1ns).risky.empty());
  EXPECT_EQ(loop.tick(claimed_at + 6s).risky, std::vector{a});
  EXPECT_TRUE(loop.at_risk(a));
  EXPECT_FALSE(loop.at_risk(later)) << "its renewal is not due";
  EXPECT_TRUE(loop.tick(claimed_at + 7s).risky.empty()) << "reported once";
  EXPECT_TRUE(no_answer(loop, renewal, claimed_at + 11s).risky.empty());
  EXPECT_TRUE(loop.at_risk(a));
  renewal = loop.tick(claimed_at + 12s).renewals.front();
  EXPECT_EQ(answer(loop, renewal, {held(), held()}, claimed_at + 12s).risky, std::vector{a});
  EXPECT_FALSE(loop.at_risk(a));
}

TEST(LeaseLoop, AFailedRenewalPutsItsLeasesAtRiskAtOnce) {
  LeaseLoop loop("q", lease);
  const auto a = loop.add(granted("a"));
  const auto renewal = loop.tick(claimed_at + 1s).renewals.front();
  EXPECT_EQ(no_answer(loop, renewal, claimed_at + 2s).risky, std::vector{a});
  EXPECT_TRUE(loop.at_risk(a));
}

}  // namespace
}  // namespace holdfast::queue
