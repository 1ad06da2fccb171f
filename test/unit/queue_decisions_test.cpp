#include "core/queue_decisions.hpp"

#include <gtest/gtest.h>

#include "support/times.hpp"

namespace holdfast::core {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

class QueueDecisions : public testing::Test {
 protected:
  static constexpr WallTime wall = test::from_ms(1'000'000);
  static constexpr QueueTime now{.wall = wall, .leases = 5000ms};
  static constexpr std::uint64_t next = 77;

  static FencingToken token(std::uint64_t fence) {
    return {.authority = "store", .lock_key = "q:t", .fence = *Fence::of(fence)};
  }
  static ClaimTerms terms(milliseconds lease = 30s) { return {.worker = "worker", .lease = lease}; }
  static QueueEntry ready(const QueueTerms& of = {}) { return enter_queue(of, wall, 3); }
  static QueueEntry leased(const QueueTerms& of = {}) { return claim(ready(of), terms(), now); }
  /// A record of version 4 with this entry, whose last claim has the fence 9.
  static RecordEntry record(QueueEntry entry) {
    RecordEntry result{
        .record = {.data = {}, .version = 4, .incarnation = "this", .bound_to = token(9), .origin = {}},
        .created_at = wall,
        .expires_at = std::nullopt};
    set_queue(result, std::move(entry));
    return result;
  }
  static EndLease end(LeaseEnd how, milliseconds delay = {}, std::uint64_t fence = 9) {
    EndLease request{.key = *RecordKey::parse("q:t"),
                     .incarnation = "this",
                     .token = token(fence),
                     .end = how,
                     .delay = delay};
    return request;
  }
  static EndLease finish(std::uint64_t version = 4, std::uint64_t fence = 9) {
    auto request = end(LeaseEnd::finished, {}, fence);
    request.write = {RecordData::unchecked("final", wall + 1h, wall), {.version = version}};
    return request;
  }
  static EndOfLease accepted(const EndLease& request, const RecordEntry& there) {
    return std::get<EndOfLease>(decide_end(request, &there, wall, next));
  }
};

TEST_F(QueueDecisions, ANewRecordIsReadyUnlessItsTimeIsLater) {
  const auto at_once = enter_queue({.max_age = 1h}, wall, next);
  EXPECT_EQ(at_once.state.place, QueuePlace::ready);
  EXPECT_EQ(at_once.state.due_at, wall);
  EXPECT_EQ(at_once.state.fails_at, wall + 1h);
  EXPECT_EQ(at_once.sequence, next);
  EXPECT_EQ(enter_queue({.not_before = wall}, wall, next).state.place, QueuePlace::ready);
  EXPECT_EQ(enter_queue({.not_before = wall - 1h}, wall, next).state.due_at, wall);
  const auto later = enter_queue({.not_before = wall + 1ms, .max_age = 1h}, wall, next);
  EXPECT_EQ(later.state.place, QueuePlace::delayed);
  EXPECT_EQ(later.state.due_at, wall + 1ms);
  EXPECT_EQ(later.state.fails_at, wall + 1ms + 1h);
  EXPECT_EQ(later.sequence, 0U);
}

TEST_F(QueueDecisions, TimesNeverOverflow) {
  const auto entry =
      enter_queue({.max_age = milliseconds::max(), .attempt_limit = milliseconds::max()}, wall, next);
  EXPECT_EQ(entry.state.fails_at, WallTime::max());
  EXPECT_EQ(claim(entry, terms(), now).attempt_deadline, 0ms);
  EXPECT_EQ(accepted(end(LeaseEnd::retried, milliseconds::max()), record(leased())).entry.state.due_at,
            WallTime::max());
}

TEST_F(QueueDecisions, APromotedRecordGetsTheNextPlace) {
  const auto entry = promote(enter_queue({.not_before = wall + 1h}, wall, 1), wall + 1h, next);
  EXPECT_EQ(entry.state.place, QueuePlace::ready);
  EXPECT_EQ(entry.sequence, next);
  const auto old = enter_queue({.not_before = wall + 1h, .max_age = 1ms}, wall, 1);
  EXPECT_EQ(promote(old, wall + 2h, next).state.place, QueuePlace::exhausted);
}

TEST_F(QueueDecisions, AClaimHasALeaseAndCountsAsAnAttempt) {
  const auto entry = claim(ready(), terms(), now);
  EXPECT_EQ(entry.state.place, QueuePlace::leased);
  EXPECT_EQ(entry.state.attempts, 1U);
  EXPECT_EQ(entry.state.worker, "worker");
  EXPECT_EQ(entry.state.claimed_at, wall);
  EXPECT_EQ(entry.state.lease_expires_at, wall + 30s);
  EXPECT_EQ(entry.lease_deadline, 35s);
  EXPECT_EQ(entry.attempt_deadline, 0ms);
  EXPECT_EQ(entry.sequence, 3U);
  EXPECT_FALSE(has_lease_expired(entry, {.wall = wall + 1h, .leases = 35s - 1ms}));
  EXPECT_TRUE(has_lease_expired(entry, {.wall = wall, .leases = 35s}));
}

TEST_F(QueueDecisions, AnAttemptLimitEndsTheFirstLeaseToo) {
  const auto entry = claim(ready({.attempt_limit = 10s}), terms(), now);
  EXPECT_EQ(entry.lease_deadline, 15s);
  EXPECT_EQ(entry.attempt_deadline, 15s);
  EXPECT_EQ(entry.state.lease_expires_at, wall + 10s);
}

TEST_F(QueueDecisions, AnExpiredLeaseIsADeathAndSendsTheRecordBehind) {
  const auto entry = expire_lease(leased(), wall, next);
  EXPECT_EQ(entry.state.place, QueuePlace::ready);
  EXPECT_EQ(entry.state.attempts, 1U);
  EXPECT_EQ(entry.state.deaths, 1U);
  EXPECT_EQ(entry.state.worker, "worker");
  EXPECT_EQ(entry.state.lease_expires_at, WallTime());
  EXPECT_EQ(entry.lease_deadline, 0ms);
  EXPECT_EQ(entry.sequence, next);
  EXPECT_EQ(expire_lease(leased({.max_attempts = 1}), wall, next).state.place, QueuePlace::exhausted);
  EXPECT_EQ(expire_lease(leased({.max_age = 1h}), wall + 1h, next).state.place, QueuePlace::exhausted);
}

TEST_F(QueueDecisions, ARenewalNeedsTheLeaseOfThisClaim) {
  const auto there = record(leased());
  const LeaseReference lease{.task = "t", .incarnation = "this", .fence = *Fence::of(9)};
  const QueueTime later{.wall = wall + 10s, .leases = 15s};
  const auto renewal = decide_renewal(lease, 40s, &there, later);
  ASSERT_TRUE(renewal);
  EXPECT_EQ(renewal->lasts, 40s);
  EXPECT_EQ(renewal->entry.lease_deadline, 55s);
  EXPECT_EQ(renewal->entry.state.lease_expires_at, wall + 50s);
  EXPECT_EQ(renewal->entry.state.attempts, 1U);

  EXPECT_FALSE(decide_renewal(lease, 40s, nullptr, later));
  auto other = lease;
  other.fence = *Fence::of(8);
  EXPECT_FALSE(decide_renewal(other, 40s, &there, later));
  other = lease;
  other.incarnation = "another";
  EXPECT_FALSE(decide_renewal(other, 40s, &there, later));
  EXPECT_FALSE(decide_renewal(lease, 40s, &there, {.wall = wall, .leases = 35s})) << "expired";
  const auto is_ready = record(ready());
  EXPECT_FALSE(decide_renewal(lease, 40s, &is_ready, later));
  auto in_no_queue = there;
  in_no_queue.queue = nullptr;
  EXPECT_FALSE(decide_renewal(lease, 40s, &in_no_queue, later));
}

TEST_F(QueueDecisions, RenewalsEndAtTheAttemptLimit) {
  const auto there = record(leased({.attempt_limit = 20s}));
  const LeaseReference lease{.task = "t", .incarnation = "this", .fence = *Fence::of(9)};
  const auto renewal = decide_renewal(lease, 40s, &there, {.wall = wall + 15s, .leases = 20s});
  ASSERT_TRUE(renewal);
  EXPECT_EQ(renewal->lasts, 5s);
  EXPECT_EQ(renewal->entry.lease_deadline, 25s);
}

TEST_F(QueueDecisions, AClaimByNameNeedsAReadyOrDelayedRecord) {
  const auto decide = [&](const QueueEntry& entry, bool may_lease = true, QueueTime at = now) {
    const auto there = record(entry);
    return decide_claim(&there, may_lease, at, next);
  };
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_claim(nullptr, true, now, next)));
  EXPECT_TRUE(std::holds_alternative<Claimable>(decide(ready())));
  EXPECT_TRUE(std::holds_alternative<Claimable>(decide(enter_queue({.not_before = wall + 1h}, wall, 1))));
  EXPECT_FALSE(std::get<Unclaimable>(decide(ready(), false)).entry);
  EXPECT_FALSE(std::get<Unclaimable>(decide(leased())).entry);
  EXPECT_FALSE(std::get<Unclaimable>(decide(leave_queue(ready()))).entry);
  EXPECT_FALSE(std::get<Unclaimable>(decide(exhaust(ready(), 5))).entry);

  const QueueTime expired{.wall = wall + 30s, .leases = 35s};
  EXPECT_EQ(std::get<Claimable>(decide(leased(), true, expired)).entry.state.deaths, 1U);
  EXPECT_EQ(std::get<Unclaimable>(decide(leased(), false, expired)).entry->state.place, QueuePlace::ready);
  EXPECT_EQ(std::get<Unclaimable>(decide(leased({.max_attempts = 1}), true, expired)).entry->state.place,
            QueuePlace::exhausted);
  EXPECT_EQ(std::get<Unclaimable>(decide(ready({.max_age = 1s}), true, expired)).entry->state.place,
            QueuePlace::exhausted);
}

TEST_F(QueueDecisions, TheChecksOfAnEndAreInOrder) {
  const auto there = record(leased());
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_end(finish(), nullptr, wall, next)));
  auto other = finish(1, 1);
  other.incarnation = "another";
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_end(other, &there, wall, next)));
  auto in_no_queue = there;
  in_no_queue.queue = nullptr;
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_end(finish(), &in_no_queue, wall, next)));
  auto expired = there;
  expired.expires_at = wall;
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_end(finish(), &expired, wall, next)));

  const auto late = decide_end(finish(1, 8), &there, wall, next);
  EXPECT_EQ(std::get<FenceRefused>(late).why, ErrorCode::StaleFence);
  auto elsewhere = finish(1);
  elsewhere.token.authority = "another store";
  EXPECT_EQ(std::get<FenceRefused>(decide_end(elsewhere, &there, wall, next)).why, ErrorCode::WrongLock);
  const auto conflict = decide_end(finish(3), &there, wall, next);
  EXPECT_EQ(std::get<VersionConflict>(conflict).actual, 4U);
  EXPECT_TRUE(std::holds_alternative<EndOfLease>(decide_end(end(LeaseEnd::retried), &there, wall, next)));
}

TEST_F(QueueDecisions, AFinishedRecordIsWrittenAndLeaves) {
  const auto ended = accepted(finish(), record(leased()));
  EXPECT_EQ(ended.entry.state.place, QueuePlace::finished);
  EXPECT_EQ(ended.entry.state.attempts, 1U);
  ASSERT_TRUE(ended.update);
  EXPECT_EQ(ended.update->version, 5U);
  EXPECT_EQ(ended.update->expires_at, wall + 1h);
  EXPECT_EQ(ended.update->bound_to, token(9));
}

TEST_F(QueueDecisions, ARetriedRecordGoesBehindOrWaits) {
  const auto at_once = accepted(end(LeaseEnd::retried), record(leased()));
  EXPECT_FALSE(at_once.update);
  EXPECT_EQ(at_once.entry.state.place, QueuePlace::ready);
  EXPECT_EQ(at_once.entry.sequence, next);
  EXPECT_EQ(at_once.entry.state.attempts, 1U);
  const auto later = accepted(end(LeaseEnd::retried, 5s), record(leased()));
  EXPECT_EQ(later.entry.state.place, QueuePlace::delayed);
  EXPECT_EQ(later.entry.state.due_at, wall + 5s);
  EXPECT_EQ(later.entry.sequence, 0U) << "its place is gone";
  EXPECT_EQ(later.entry.state.fails_at, ready().state.fails_at) << "a retry does not prolong its life";
  EXPECT_EQ(accepted(end(LeaseEnd::retried, 5s), record(leased({.max_attempts = 1}))).entry.state.place,
            QueuePlace::exhausted);
}

TEST_F(QueueDecisions, ARecordThatIsGivenBackHasItsOldPlace) {
  const auto back = accepted(end(LeaseEnd::given_back), record(leased())).entry;
  EXPECT_EQ(back.state.place, QueuePlace::ready);
  EXPECT_EQ(back.sequence, 3U);
  EXPECT_EQ(back.state.attempts, 0U);
  const auto early = claim(enter_queue({.not_before = wall + 1h}, wall, 1), terms(), now);
  const auto delayed = accepted(end(LeaseEnd::given_back), record(early)).entry;
  EXPECT_EQ(delayed.state.place, QueuePlace::delayed);
  const auto there = record(early);
  const auto due = std::get<EndOfLease>(decide_end(end(LeaseEnd::given_back), &there, wall + 1h, next)).entry;
  EXPECT_EQ(due.state.place, QueuePlace::ready);
  EXPECT_EQ(due.sequence, next);
}

TEST_F(QueueDecisions, AnEndAfterTheLeaseWasRemovedChangesNoMoreThanItSays) {
  const auto dead = record(expire_lease(leased(), wall, 20));
  const auto back = accepted(end(LeaseEnd::given_back), dead).entry;
  EXPECT_EQ(back.state.attempts, 1U);
  EXPECT_EQ(back.sequence, 20U);
  EXPECT_EQ(accepted(end(LeaseEnd::retried, 5s), dead).entry.state.place, QueuePlace::delayed);
  EXPECT_EQ(accepted(finish(), dead).entry.state.place, QueuePlace::finished);
  const auto exhausted = record(expire_lease(leased({.max_attempts = 1}), wall, 20));
  for (const auto how : {LeaseEnd::retried, LeaseEnd::given_back}) {
    EXPECT_EQ(accepted(end(how, 5s), exhausted).entry.state.place, QueuePlace::exhausted);
    EXPECT_EQ(accepted(end(how, 5s), record(leave_queue(leased()))).entry.state.place, QueuePlace::finished);
  }
}

TEST_F(QueueDecisions, ARecordIsParkedWhereItsKeyIsAtItsLimit) {
  const QueueTerms two{.limit_key = "k", .limit = 2};
  EXPECT_EQ(admit(ready(two), 1).state.place, QueuePlace::ready);
  const auto parked = admit(ready(two), 2);
  EXPECT_EQ(parked.state.place, QueuePlace::parked);
  EXPECT_EQ(parked.sequence, 3U) << "its place is kept";
  EXPECT_EQ(admit(ready(), 9).state.place, QueuePlace::ready) << "without a key";
  const auto delayed = enter_queue({.not_before = wall + 1h, .limit_key = "k"}, wall, 1);
  EXPECT_EQ(admit(delayed, 9).state.place, QueuePlace::delayed) << "it is not ready yet";
  const auto there = record(parked);
  EXPECT_TRUE(std::holds_alternative<Claimable>(decide_claim(&there, true, now, next)));
  EXPECT_FALSE(std::get<Unclaimable>(decide_claim(&there, false, now, next)).entry);
  const QueueTime late{.wall = wall + std::chrono::days(15), .leases = 1s};
  EXPECT_EQ(std::get<Unclaimable>(decide_claim(&there, true, late, next)).entry->state.place,
            QueuePlace::exhausted);
}

TEST_F(QueueDecisions, ARecordThatIsLeasedOrReadyNoMoreMakesRoom) {
  using enum QueuePlace;
  for (const auto to : {delayed, ready, exhausted, finished, parked, dead}) {
    EXPECT_TRUE(makes_room(leased, to));
  }
  for (const auto to : {delayed, exhausted, finished, dead}) EXPECT_TRUE(makes_room(ready, to));
  for (const auto to : {ready, leased, parked}) EXPECT_FALSE(makes_room(ready, to));
  for (const auto from : {delayed, exhausted, finished, parked, dead})
    EXPECT_FALSE(makes_room(from, finished));
}

TEST_F(QueueDecisions, AFailedRecordDiesOnceAndStaysDead) {
  auto request = finish();
  request.max_dead = 5;
  const auto died = accepted(request, record(leased())).entry;
  EXPECT_EQ(died.state.place, QueuePlace::dead);
  EXPECT_EQ(died.died_at, wall);
  EXPECT_EQ(died.lease_deadline, 0ms);
  EXPECT_EQ(die(died, wall + 1h).died_at, wall);
  EXPECT_EQ(leave_queue(died).state.place, QueuePlace::dead);
  EXPECT_EQ(die(leave_queue(leased()), wall).state.place, QueuePlace::finished);
  for (const auto how : {LeaseEnd::retried, LeaseEnd::given_back}) {
    EXPECT_EQ(accepted(end(how), record(died)).entry.state.place, QueuePlace::dead);
  }
  const auto there = record(died);
  EXPECT_FALSE(std::get<Unclaimable>(decide_claim(&there, true, now, next)).entry);
}

TEST_F(QueueDecisions, TermsOfLimitsAreChecked) {
  const auto is_refused = [](const QueueTerms& of) { return refuse_queue_terms(of).has_value(); };
  EXPECT_FALSE(is_refused({.limit_key = std::string(256, 'k'), .limit = 1'000'000}));
  EXPECT_TRUE(is_refused({.limit_key = std::string(257, 'k')}));
  EXPECT_TRUE(is_refused({.limit_key = "\xFF"}));
  EXPECT_TRUE(is_refused({.limit = 0}));
  EXPECT_TRUE(is_refused({.limit = 1'000'001}));
  EXPECT_TRUE(is_refused({.failed_retention = -1ms}));
}

TEST_F(QueueDecisions, AWorkerIsWokenForWhatItCanClaimOrMustWaitFor) {
  const QueueOffer nothing, one{.is_claimable = true, .ready = 1}, two{.is_claimable = true, .ready = 2};
  EXPECT_TRUE(wakes_worker(nothing, one));
  EXPECT_TRUE(wakes_worker(one, two));
  EXPECT_FALSE(wakes_worker(two, two));
  EXPECT_FALSE(wakes_worker(two, one));
  const QueueOffer held_back{.is_claimable = false, .ready = 2};
  EXPECT_TRUE(wakes_worker(held_back, two)) << "resumed, or a lease became free";
  EXPECT_FALSE(wakes_worker(nothing, held_back));
  const QueueOffer soon{.next_due = wall + 1s}, later{.next_due = wall + 2s};
  EXPECT_TRUE(wakes_worker(nothing, later));
  EXPECT_TRUE(wakes_worker(later, soon));
  EXPECT_FALSE(wakes_worker(soon, later));
  EXPECT_FALSE(wakes_worker(soon, soon));
}

}  // namespace
}  // namespace holdfast::core
