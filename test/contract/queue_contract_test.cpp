// Queues: order, claims, ends of leases, settings. What depends on the time is in queue_time_test.cpp.

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "contract/storage_contract.hpp"
#include "support/begun_wait.hpp"
#include "support/queue_calls.hpp"

namespace holdfast::test {
namespace {

class QueueContract : public StorageContract {
 protected:
  /// Where the records are, for both clients.
  void expect_counts(const QueueCounts& expected) const {
    for (const auto& client : {mine, theirs}) {
      const auto counts = count_queue(*client);
      EXPECT_EQ(counts.ready, expected.ready);
      EXPECT_EQ(counts.delayed, expected.delayed);
      EXPECT_EQ(counts.leased, expected.leased);
      EXPECT_EQ(counts.exhausted, expected.exhausted);
      EXPECT_EQ(counts.records, expected.records);
    }
  }
};

TEST_P(QueueContract, ACreatedRecordIsReady) {
  const auto before = mine->now();
  const QueueTerms terms{
      .priority = 3, .max_attempts = 7, .max_age = 1h, .attempt_limit = 2min, .retention = 3h};
  enqueue(*mine, "q:t", terms, R"({"a":[]})");
  const auto record = get(*theirs, "q:t").value();
  ASSERT_TRUE(record.queue);
  EXPECT_EQ(record.queue->terms, terms);
  EXPECT_EQ(record.queue->place, QueuePlace::ready);
  EXPECT_EQ(record.queue->attempts, 0U);
  EXPECT_EQ(record.queue->deaths, 0U);
  EXPECT_GE(record.queue->due_at, before - 1s);  // the clock of a server may be behind ours
  EXPECT_EQ(record.queue->fails_at, record.queue->due_at + 1h);
  EXPECT_EQ(record.queue->worker, "");
  EXPECT_EQ(record.queue->claimed_at, WallTime());
  EXPECT_EQ(record.queue->lease_expires_at, WallTime());
  EXPECT_EQ(record.data, R"({"a":[]})");
  EXPECT_FALSE(record.bound_to);
  expect_counts({.ready = 1, .records = 1});
}

TEST_P(QueueContract, ARecordThatIsCreatedForNoQueueIsInNone) {
  create(*mine, "q:t");
  EXPECT_FALSE(get(*mine, "q:t")->queue);
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_record(*mine, "q:t")));
  expect_counts({.records = 1});
}

TEST_P(QueueContract, ListsAndSecondCreatesShowTheState) {
  enqueue(*mine, "q:t", {.priority = 4});
  const auto again = outcome(*theirs, CreateRecord{.key = record_key("q:t"), .data = record_data("{}")});
  EXPECT_EQ(std::get<AlreadyThere>(again).record.queue->terms.priority, 4);
  const auto page = outcome(*theirs, ListRecords{.prefix = "q:"});
  ASSERT_EQ(page.records.size(), 1U);
  EXPECT_EQ(page.records[0].record.queue->terms.priority, 4);
}

TEST_P(QueueContract, AClaimGivesALeaseAnAttemptAndAFence) {
  const auto written = enqueue(*mine, "q:t", {}, "data");
  const auto claimed = claim_one(*theirs, claim_terms(1, "鍵 worker"));
  EXPECT_EQ(claimed.key.str(), "q:t");
  EXPECT_EQ(claimed.record.data, "data");
  EXPECT_EQ(claimed.record.version, 1U);
  EXPECT_EQ(claimed.record.incarnation, written.incarnation);
  ASSERT_TRUE(claimed.record.bound_to);
  const auto& state = *claimed.record.queue;
  EXPECT_EQ(state.place, QueuePlace::leased);
  EXPECT_EQ(state.attempts, 1U);
  EXPECT_EQ(state.worker, "鍵 worker");
  EXPECT_EQ(state.lease_expires_at, state.claimed_at + 60s);
  const auto record = get(*mine, "q:t").value();
  EXPECT_EQ(record.bound_to, claimed.record.bound_to);
  EXPECT_EQ(record.version, 1U);
  EXPECT_EQ(record.queue->place, QueuePlace::leased);
  EXPECT_EQ(record.queue->worker, "鍵 worker");
  EXPECT_EQ(record.queue->claimed_at, state.claimed_at);
  expect_counts({.leased = 1, .records = 1});
}

TEST_P(QueueContract, ClaimsComeByPriorityThenByCreation) {
  enqueue(*mine, "q:b");
  enqueue(*mine, "q:low", {.priority = -1000});
  enqueue(*theirs, "q:a");
  enqueue(*mine, "q:high", {.priority = 1000});
  std::vector<std::string> order;
  for (int i = 0; i < 4; ++i) order.emplace_back(claim_one(*mine).key.task());
  EXPECT_EQ(order, (std::vector<std::string>{"high", "b", "a", "low"}));
}

TEST_P(QueueContract, ALeasedRecordIsNotClaimedAgain) {
  enqueue(*mine, "q:t");
  claim_one(*mine);
  const auto empty = claim_next(*theirs);
  EXPECT_TRUE(empty.claimed.empty());
  EXPECT_TRUE(empty.exhausted.empty());
  EXPECT_FALSE(empty.paused);
  ASSERT_TRUE(empty.look_again_after);  // the lease may expire
  EXPECT_LE(*empty.look_again_after, 60s);
}

TEST_P(QueueContract, AnEmptyQueueGivesNoTimeToLookAgain) {
  const auto empty = claim_next(*mine);
  EXPECT_TRUE(empty.claimed.empty());
  EXPECT_FALSE(empty.look_again_after);
  expect_counts({});
}

TEST_P(QueueContract, ABatchIsClaimedInOrder) {
  for (int i = 0; i < 130; ++i) enqueue(*mine, "q:" + std::to_string(i));
  EXPECT_EQ(names_of(claim_next(*mine, claim_terms(0)).claimed), std::vector<std::string>{"0"});
  EXPECT_EQ(names_of(claim_next(*mine, claim_terms(3)).claimed), (std::vector<std::string>{"1", "2", "3"}));
  const auto most = claim_next(*theirs, claim_terms(1000)).claimed;
  EXPECT_EQ(most.size(), max_claimed_records);
  for (const auto& one : most) {
    EXPECT_EQ(one.record.queue->attempts, 1U);
    EXPECT_TRUE(one.record.bound_to);
  }
  expect_counts({.ready = 26, .leased = 104, .records = 130});
}

TEST_P(QueueContract, QueuesOfOtherOwnersAreApart) {
  enqueue(*mine, "q:t");
  enqueue(*mine, "qq:t", {.priority = 9});
  EXPECT_EQ(claim_one(*mine).key.str(), "q:t");
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  EXPECT_EQ(claim_one(*mine, claim_terms(), "qq").key.str(), "qq:t");
}

TEST_P(QueueContract, NamesMayBeAnyText) {
  const std::vector<std::string> names = {"", "b:t", std::string("n\0n", 3), "鍵", "*", "t t"};
  for (const auto& name : names) enqueue(*mine, "q:" + name);
  const auto claimed = claim_next(*theirs, claim_terms(10)).claimed;
  EXPECT_EQ(names_of(claimed), names);
  for (const auto& one : claimed) {
    EXPECT_TRUE(renew(*mine, one).is_held);
    EXPECT_TRUE(std::holds_alternative<Written>(finish(*mine, one).end));
  }
  expect_counts({.records = names.size()});
}

TEST_P(QueueContract, AFinishedRecordLeavesTheQueue) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine);
  const auto ended = finish(*mine, claimed, "final");
  const auto& written = std::get<Written>(ended.end);
  EXPECT_EQ(written.version, 2U);
  EXPECT_EQ(written.incarnation, claimed.record.incarnation);
  EXPECT_FALSE(ended.next);
  const auto record = get(*theirs, "q:t").value();
  EXPECT_EQ(record.data, "final");
  EXPECT_EQ(record.version, 2U);
  EXPECT_EQ(record.queue->place, QueuePlace::finished);
  EXPECT_EQ(record.queue->attempts, 1U);
  EXPECT_EQ(record.queue->worker, "worker");
  EXPECT_EQ(record.queue->lease_expires_at, WallTime());
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  expect_counts({.records = 1});
}

TEST_P(QueueContract, ARetriedRecordGoesBehindAndTheAttemptCounts) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  const auto first = claim_one(*mine);
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(retry(*mine, first).end));
  EXPECT_EQ(queue_state(*mine, "q:a").place, QueuePlace::ready);
  EXPECT_EQ(get(*mine, "q:a")->version, 1U);
  EXPECT_EQ(claim_one(*mine).key.task(), "b");
  const auto second = claim_one(*mine);
  EXPECT_EQ(second.key.task(), "a");
  EXPECT_EQ(second.record.queue->attempts, 2U);
  EXPECT_EQ(second.record.queue->deaths, 0U);
  EXPECT_GT(second.record.bound_to->fence, first.record.bound_to->fence);
  EXPECT_EQ(second.record.bound_to->authority, first.record.bound_to->authority);
  EXPECT_EQ(second.record.bound_to->lock_key, first.record.bound_to->lock_key);
}

TEST_P(QueueContract, ARecordThatIsGivenBackKeepsItsPlaceAndItsAttempts) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  const auto first = claim_one(*mine);
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(give_back(*mine, first).end));
  EXPECT_EQ(queue_state(*mine, "q:a").attempts, 0U);
  const auto second = claim_one(*theirs);
  EXPECT_EQ(second.key.task(), "a");
  EXPECT_EQ(second.record.queue->attempts, 1U);
  EXPECT_GT(second.record.bound_to->fence, first.record.bound_to->fence);
}

TEST_P(QueueContract, AnEndMayWriteData) {
  enqueue(*mine, "q:t");
  for (const auto end : {LeaseEnd::retried, LeaseEnd::given_back}) {
    const auto claimed = claim_one(*mine);
    const auto text = "after " + std::to_string(claimed.record.version);
    const auto ended = outcome(*mine, end_of(claimed, end, text));
    EXPECT_EQ(std::get<Written>(ended.end).version, claimed.record.version + 1);
    EXPECT_EQ(get(*theirs, "q:t")->data, text);
  }
  EXPECT_EQ(queue_state(*mine, "q:t").attempts, 1U);
}

TEST_P(QueueContract, AnOutcomeOfAnEarlierClaimIsRefused) {
  enqueue(*mine, "q:t");
  const auto early = claim_one(*mine);
  give_back(*mine, early);
  const auto late = claim_one(*theirs);
  for (const auto end : {LeaseEnd::finished, LeaseEnd::retried, LeaseEnd::given_back}) {
    auto request = end_of(early, end, "late");
    request.then = claim_terms();
    const auto refused = outcome(*mine, request);
    ASSERT_NE(refused_with(ErrorCode::StaleFence, refused.end), nullptr) << refused.end.index();
    EXPECT_EQ(std::get<FenceRefused>(refused.end).bound_to, late.record.bound_to);
    EXPECT_FALSE(refused.next);
  }
  EXPECT_FALSE(renew(*mine, early).is_held);
  EXPECT_TRUE(renew(*mine, late).is_held);
  EXPECT_EQ(get(*mine, "q:t")->data, "{}");
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*theirs, late).end));
}

TEST_P(QueueContract, ASecondOutcomeOfOneClaimIsRefused) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine);
  finish(*mine, claimed, "first");
  const auto second = finish(*mine, claimed, "second");
  // An engine that resends cannot distinguish another write under the same version from its own.
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(second.end)) << second.end.index();
  EXPECT_EQ(get(*mine, "q:t")->data, "first");
}

TEST_P(QueueContract, AFinishedRecordIsNotBroughtBackByTheEndOfItsLease) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine);
  outcome(*theirs, PutRecord{.key = claimed.key, .data = record_data("cancelled"), .leaves_queue = true});
  EXPECT_FALSE(renew(*mine, claimed).is_held);
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(finish(*mine, claimed).end));
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(retry(*mine, claimed).end));
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(give_back(*mine, claimed).end));
  EXPECT_EQ(queue_state(*mine, "q:t").place, QueuePlace::finished);
  EXPECT_EQ(queue_state(*mine, "q:t").attempts, 1U);
  expect_counts({.records = 1});
}

TEST_P(QueueContract, AnEndWithoutDataMayDependOnTheVersion) {
  enqueue(*mine, "q:t");
  for (const auto end : {LeaseEnd::retried, LeaseEnd::given_back}) {
    const auto claimed = claim_one(*mine);
    auto request = end_of(claimed, end);
    request.expected = ExpectedVersion{.version = claimed.record.version};
    put(*theirs, "q:t", "changed");
    request.then = claim_terms();
    const auto refused = outcome(*mine, request);
    ASSERT_TRUE(std::holds_alternative<VersionConflict>(refused.end)) << refused.end.index();
    EXPECT_EQ(std::get<VersionConflict>(refused.end).actual, claimed.record.version + 1);
    EXPECT_FALSE(refused.next);
    EXPECT_TRUE(renew(*mine, claimed).is_held);
    request.then.reset();
    ++request.expected->version;
    EXPECT_TRUE(std::holds_alternative<LeaseEnded>(outcome(*mine, request).end));
    EXPECT_EQ(get(*mine, "q:t")->data, "changed");
    EXPECT_EQ(queue_state(*mine, "q:t").place, QueuePlace::ready);
  }
}

TEST_P(QueueContract, AWriteThatIsNotFinalLeavesThePlace) {
  enqueue(*mine, "q:t");
  put(*theirs, "q:t", "changed");
  const auto claimed = claim_one(*mine);
  EXPECT_EQ(claimed.record.data, "changed");
  EXPECT_EQ(claimed.record.version, 2U);
  put(*theirs, "q:t", "changed again");
  EXPECT_EQ(renew(*mine, claimed).version, 3U);
  EXPECT_EQ(queue_state(*mine, "q:t").place, QueuePlace::leased);
  const auto conflict = finish(*mine, claimed);
  ASSERT_TRUE(std::holds_alternative<VersionConflict>(conflict.end));
  EXPECT_EQ(std::get<VersionConflict>(conflict.end).actual, 3U);
  EXPECT_TRUE(renew(*mine, claimed).is_held);
}

TEST_P(QueueContract, AWriteThatIsFinalTakesARecordOutOfAnyPlace) {
  enqueue(*mine, "q:ready");
  enqueue(*mine, "q:delayed", {.not_before = mine->now() + 1h});
  for (const auto* key : {"q:ready", "q:delayed"}) {
    outcome(*mine, PutRecord{.key = record_key(key), .data = record_data("final"), .leaves_queue = true});
    EXPECT_EQ(queue_state(*theirs, key).place, QueuePlace::finished);
  }
  EXPECT_FALSE(claim_next(*mine).look_again_after);
  expect_counts({.records = 2});
}

TEST_P(QueueContract, AFencedWriteOfTheHolderIsAccepted) {
  enqueue(*mine, "q:t");
  const auto early = claim_one(*mine);
  EXPECT_TRUE(std::holds_alternative<Written>(outcome(
      *mine, PutRecord{.key = early.key, .data = record_data("progress"), .fence = early.record.bound_to})));
  give_back(*mine, early);
  claim_one(*mine);
  const auto refused = outcome(
      *mine, PutRecord{.key = early.key, .data = record_data("late"), .fence = early.record.bound_to});
  EXPECT_NE(refused_with(ErrorCode::StaleFence, refused), nullptr);
}

TEST_P(QueueContract, ARemovedRecordIsGoneFromTheQueue) {
  enqueue(*mine, "q:ready");
  enqueue(*mine, "q:leased", {.priority = 1});
  const auto claimed = claim_one(*mine);
  EXPECT_TRUE(remove(*theirs, "q:leased"));
  EXPECT_TRUE(remove(*theirs, "q:ready"));
  EXPECT_FALSE(renew(*mine, claimed).is_held);
  EXPECT_TRUE(std::holds_alternative<NoRecord>(finish(*mine, claimed).end));
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  expect_counts({});
}

TEST_P(QueueContract, AnotherIncarnationIsNotTheRecordThatWasClaimed) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine);
  remove(*mine, "q:t");
  enqueue(*mine, "q:t");
  EXPECT_FALSE(renew(*mine, claimed).is_held);
  EXPECT_TRUE(std::holds_alternative<NoRecord>(finish(*mine, claimed).end));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(retry(*mine, claimed).end));
  EXPECT_EQ(queue_state(*mine, "q:t").place, QueuePlace::ready);
}

TEST_P(QueueContract, ARecordWithoutAnAttemptLeftIsExhausted) {
  enqueue(*mine, "q:t", {.max_attempts = 2});
  retry(*mine, claim_one(*mine));
  const auto last = claim_one(*mine);
  auto request = end_of(last, LeaseEnd::retried);
  request.then = claim_terms();
  const auto ended = outcome(*mine, request);
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(ended.end));
  ASSERT_TRUE(ended.next);
  EXPECT_TRUE(ended.next->claimed.empty());
  EXPECT_EQ(names_of(ended.next->exhausted), std::vector<std::string>{"t"});
  expect_counts({.exhausted = 1, .records = 1});
  // Until a write ends it, each claim returns it.
  const auto exhausted = claim_next(*theirs).exhausted;
  ASSERT_EQ(exhausted.size(), 1U);
  EXPECT_EQ(exhausted[0].record.queue->place, QueuePlace::exhausted);
  EXPECT_EQ(exhausted[0].record.queue->attempts, 2U);
  EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_record(*mine, "q:t")));
  outcome(*theirs, PutRecord{.key = record_key("q:t"), .data = record_data("failed"), .leaves_queue = true});
  EXPECT_TRUE(claim_next(*mine).exhausted.empty());
  expect_counts({.records = 1});
}

TEST_P(QueueContract, AClaimReturnsABoundedNumberOfExhaustedRecords) {
  for (int i = 0; i < 15; ++i) enqueue(*mine, "q:" + std::to_string(i), {.max_attempts = 1});
  for (const auto& one : claim_next(*mine, claim_terms(15)).claimed) retry(*mine, one);
  std::size_t ended = 0;
  for (int rounds = 0; rounds < 2; ++rounds) {
    const auto exhausted = claim_next(*mine).exhausted;
    EXPECT_LE(exhausted.size(), max_exhausted_records);
    for (const auto& one : exhausted) {
      outcome(*mine, PutRecord{.key = one.key, .data = record_data("failed"), .leaves_queue = true});
      ++ended;
    }
  }
  EXPECT_EQ(ended, 15U);
  expect_counts({.records = 15});
}

TEST_P(QueueContract, ExhaustedRecordsThatTheCallerLeavesDoNotHideTheOthers) {
  for (int i = 0; i < 15; ++i) enqueue(*mine, "q:" + std::to_string(i), {.max_attempts = 1});
  for (const auto& one : claim_next(*mine, claim_terms(15)).claimed) retry(*mine, one);
  std::set<std::string> seen;
  for (int rounds = 0; rounds < 2; ++rounds) {
    for (const auto& name : names_of(claim_next(*mine).exhausted)) seen.insert(name);
  }
  EXPECT_EQ(seen.size(), 15U);
  expect_counts({.exhausted = 15, .records = 15});
}

TEST_P(QueueContract, AnEndMayClaimTheNextRecord) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  auto request = end_of(claim_one(*mine), LeaseEnd::finished, "final");
  request.then = claim_terms(1, "another label");
  const auto ended = outcome(*mine, request);
  EXPECT_TRUE(std::holds_alternative<Written>(ended.end));
  ASSERT_TRUE(ended.next);
  ASSERT_EQ(names_of(ended.next->claimed), std::vector<std::string>{"b"});
  EXPECT_EQ(ended.next->claimed[0].record.queue->worker, "another label");
  request = end_of(ended.next->claimed[0], LeaseEnd::finished, "final");
  request.then = claim_terms();
  EXPECT_TRUE(outcome(*mine, request).next.value().claimed.empty());
  expect_counts({.records = 2});
}

TEST_P(QueueContract, AnOutcomeIsAcceptedAsLongAsThereIsNoOtherClaim) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine);
  retry(*mine, claimed);
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*mine, claimed).end));
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  expect_counts({.records = 1});
}

TEST_P(QueueContract, AClaimOfOneRecordAndOfTheNextExcludeEachOther) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  const auto outcome_of_b = claim_record(*theirs, "q:b");
  const auto& b = std::get<ClaimedRecord>(outcome_of_b);
  EXPECT_EQ(b.key.str(), "q:b");
  EXPECT_EQ(b.record.queue->place, QueuePlace::leased);
  EXPECT_EQ(b.record.queue->attempts, 1U);
  EXPECT_EQ(names_of(claim_next(*mine, claim_terms(10)).claimed), std::vector<std::string>{"a"});
  const auto refused = claim_record(*mine, "q:a");
  EXPECT_EQ(std::get<NotClaimable>(refused).record.queue->place, QueuePlace::leased);
  EXPECT_TRUE(std::holds_alternative<NoRecord>(claim_record(*mine, "q:absent")));
  EXPECT_TRUE(renew(*mine, b).is_held);
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*mine, b).end));
  const auto finished = claim_record(*mine, "q:b");
  EXPECT_EQ(std::get<NotClaimable>(finished).record.queue->place, QueuePlace::finished);
}

TEST_P(QueueContract, ADelayedRecordCanBeClaimedByItsName) {
  enqueue(*mine, "q:t", {.not_before = mine->now() + 1h});
  const auto answer = claim_record(*mine, "q:t");
  const auto& claimed = std::get<ClaimedRecord>(answer);
  expect_counts({.leased = 1, .records = 1});
  give_back(*mine, claimed);
  EXPECT_EQ(queue_state(*theirs, "q:t").place, QueuePlace::delayed);
  EXPECT_EQ(queue_state(*theirs, "q:t").attempts, 0U);
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
}

TEST_P(QueueContract, APausedQueueGivesNoNextRecord) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  EXPECT_TRUE(pause(*theirs).paused);
  auto empty = claim_next(*mine);
  EXPECT_TRUE(empty.claimed.empty());
  EXPECT_TRUE(empty.paused);
  EXPECT_FALSE(empty.look_again_after);
  EXPECT_TRUE(count_queue(*mine).paused);
  EXPECT_TRUE(std::holds_alternative<ClaimedRecord>(claim_record(*mine, "q:a")));
  EXPECT_FALSE(pause(*mine, false).paused);
  EXPECT_EQ(claim_one(*theirs).key.task(), "b");
}

TEST_P(QueueContract, SettingsPrecedeRecords) {
  pause(*mine);
  limit_leases(*mine, 2);
  const auto counts = count_queue(*theirs);
  EXPECT_TRUE(counts.paused);
  EXPECT_EQ(counts.max_leased, 2U);
  EXPECT_TRUE(owners_of(*mine).empty());
  const auto unchanged = outcome(*theirs, ConfigureQueue{.owner = "q"});
  EXPECT_TRUE(unchanged.paused);
  EXPECT_EQ(unchanged.max_leased, 2U);
  EXPECT_EQ(limit_leases(*theirs, 0).max_leased, std::nullopt);
  EXPECT_EQ(limit_leases(*theirs, max_lease_limit).max_leased, max_lease_limit);
}

TEST_P(QueueContract, AsManyRecordsAreLeasedAsTheLimitAllows) {
  for (int i = 0; i < 5; ++i) enqueue(*mine, "q:" + std::to_string(i));
  limit_leases(*mine, 3);
  const auto claimed = claim_next(*mine, claim_terms(10)).claimed;
  EXPECT_EQ(names_of(claimed), (std::vector<std::string>{"0", "1", "2"}));
  const auto full = claim_next(*theirs);
  EXPECT_TRUE(full.claimed.empty());
  EXPECT_TRUE(full.look_again_after);
  const auto refused = claim_record(*theirs, "q:3");
  EXPECT_EQ(std::get<NotClaimable>(refused).record.queue->place, QueuePlace::ready);
  finish(*mine, claimed[1]);
  EXPECT_EQ(names_of(claim_next(*theirs, claim_terms(10)).claimed), std::vector<std::string>{"3"});
  limit_leases(*theirs, 1);  // leases above it stay
  EXPECT_TRUE(renew(*mine, claimed[0]).is_held);
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  limit_leases(*theirs, 0);
  EXPECT_EQ(claim_one(*mine).key.task(), "4");
}

TEST_P(QueueContract, RenewalsAnswerEachForItself) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  const auto claimed = claim_next(*mine, claim_terms(2)).claimed;
  auto stranger = lease_of(claimed[1]);
  stranger.fence = Fence::of(stranger.fence.value() + 1).value_or_throw();
  auto replaced = lease_of(claimed[1]);
  replaced.incarnation = "another";
  const auto absent = LeaseReference{.task = "absent", .incarnation = "x", .fence = stranger.fence};
  const auto renewed = outcome(
      *theirs, RenewLeases{.owner = "q",
                           .leases = {stranger, lease_of(claimed[0]), absent, replaced, lease_of(claimed[1])},
                           .lease = 90s});
  ASSERT_EQ(renewed.size(), 5U);
  const std::vector<bool> held = {false, true, false, false, true};
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(renewed[i].is_held, held[i]) << i;
    EXPECT_EQ(renewed[i].lasts, held[i] ? 90s : 0s) << i;
    EXPECT_EQ(renewed[i].version, held[i] ? 1U : 0U) << i;
  }
  EXPECT_TRUE(outcome(*mine, RenewLeases{.owner = "q", .leases = {}, .lease = 1s}).empty());
}

TEST_P(QueueContract, AQuotaCountsTheRecordsOfAQueue) {
  enqueue(*mine, "q:a");
  finish(*mine, claim_one(*mine));
  const CreateRecord request{
      .key = record_key("q:b"), .data = record_data("{}"), .quota = 1, .queue = QueueTerms{}};
  EXPECT_EQ(std::get<QuotaReached>(outcome(*mine, request)).records, 1U);
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
}

TEST_P(QueueContract, InvalidArgumentsAreRefused) {
  const auto code = [&](auto request) {
    const auto result = call(*mine, std::move(request));
    return result ? std::nullopt : std::optional(result.error().code());
  };
  const auto created_with = [&](const QueueTerms& terms) {
    return code(CreateRecord{.key = record_key("q:t"), .data = record_data("{}"), .queue = terms});
  };
  EXPECT_EQ(created_with({.priority = 1001}), ErrorCode::InvalidArgument);
  EXPECT_EQ(created_with({.priority = -1001}), ErrorCode::InvalidArgument);
  EXPECT_EQ(created_with({.max_attempts = 0}), ErrorCode::InvalidArgument);
  EXPECT_EQ(created_with({.max_attempts = 1'000'001}), ErrorCode::InvalidArgument);
  EXPECT_EQ(created_with({.max_age = 0ms}), ErrorCode::InvalidArgument);
  EXPECT_EQ(created_with({.attempt_limit = -1ms}), ErrorCode::InvalidArgument);
  EXPECT_EQ(created_with({.retention = -1ms}), ErrorCode::InvalidArgument);
  EXPECT_EQ(
      code(CreateRecord{
          .key = record_key("q:t"), .data = record_data("{}"), .fence = token(1), .queue = QueueTerms{}}),
      ErrorCode::InvalidArgument);
  EXPECT_FALSE(get(*mine, "q:t"));

  enqueue(*mine, "q:t");
  for (const auto& terms :
       {claim_terms(1, std::string(257, 'w')), claim_terms(1, "\xFF"), claim_terms(1, "w", 0ms),
        claim_terms(1, "w", -1s), claim_terms(1, "w", 24h * 367)}) {
    EXPECT_EQ(code(ClaimNext{.owner = "q", .terms = terms}), ErrorCode::InvalidArgument);
    EXPECT_EQ(code(ClaimRecord{.key = record_key("q:t"), .terms = terms}), ErrorCode::InvalidArgument);
  }
  for (const auto* owner : {"q:t", "\xFF"}) {
    EXPECT_EQ(code(ClaimNext{.owner = owner, .terms = claim_terms()}), ErrorCode::InvalidArgument);
    EXPECT_EQ(code(RenewLeases{.owner = owner, .leases = {}, .lease = 1s}), ErrorCode::InvalidArgument);
    EXPECT_EQ(code(CountQueue{.owner = owner}), ErrorCode::InvalidArgument);
    EXPECT_EQ(code(ConfigureQueue{.owner = owner, .paused = true}), ErrorCode::InvalidArgument);
  }
  EXPECT_EQ(code(ClaimNext{.owner = "q", .terms = claim_terms(), .searched = -1ms}),
            ErrorCode::InvalidArgument);
  const auto claimed = claim_one(*mine, claim_terms(1, std::string(256, 'w')));
  EXPECT_EQ(code(end_of(claimed, LeaseEnd::finished)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(end_of(claimed, LeaseEnd::retried, {}, -1ms)), ErrorCode::InvalidArgument);
  auto then = end_of(claimed, LeaseEnd::finished, "final");
  then.then = claim_terms(1, "w", 0ms);
  EXPECT_EQ(code(then), ErrorCode::InvalidArgument);
  RenewLeases many{.owner = "q", .leases = {}, .lease = 1s};
  many.leases.assign(max_renewed_leases + 1, lease_of(claimed));
  EXPECT_EQ(code(many), ErrorCode::InvalidArgument);
  many.leases.pop_back();
  many.lease = 0s;
  EXPECT_EQ(code(many), ErrorCode::InvalidArgument);
  EXPECT_TRUE(renew(*mine, claimed).is_held);
  for (const std::size_t most : {max_lease_limit + 1, std::numeric_limits<std::size_t>::max()}) {
    EXPECT_EQ(code(ConfigureQueue{.owner = "q", .max_leased = most}), ErrorCode::InvalidArgument);
  }
  EXPECT_EQ(count_queue(*mine).max_leased, std::nullopt);
}

TEST_P(QueueContract, ConcurrentWorkersFinishEachRecordOnce) {
  constexpr int records = 120, workers = 4;
  for (int i = 0; i < records; ++i) enqueue(*mine, "q:" + std::to_string(i));
  std::array<std::vector<std::string>, workers> finished;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([&, i, client = i % 2 == 0 ? mine : theirs] {
        auto next = claim_next(*client, claim_terms(1, std::to_string(i)));
        while (!next.claimed.empty()) {
          auto request = end_of(next.claimed[0], LeaseEnd::finished, "final");
          request.then = claim_terms(1, std::to_string(i));
          auto ended = outcome(*client, request);
          if (!std::holds_alternative<Written>(ended.end)) break;
          finished[static_cast<std::size_t>(i)].emplace_back(next.claimed[0].key.task());
          next = std::move(ended.next).value();
        }
      });
    }
  }
  std::set<std::string> all;
  std::size_t count = 0;
  for (const auto& names : finished) {
    all.insert(names.begin(), names.end());
    count += names.size();
  }
  EXPECT_EQ(count, static_cast<std::size_t>(records));
  EXPECT_EQ(all.size(), static_cast<std::size_t>(records));
  expect_counts({.records = records});
}

TEST_P(QueueContract, ARecordThatBecomesReadyWakesAWorker) {
  const auto watch = call(*mine, WatchQueue{.owner = "q"}).value_or_throw();
  ASSERT_TRUE(watch);
  // Workers wait after a claim that found nothing: an engine may register them in that step.
  const auto woken_by = [&](auto action) {
    EXPECT_TRUE(claim_next(*mine).claimed.empty());
    const BegunWait wait(*watch, never, BootClock::now() + 20s);
    action();
    return wait.end().value_or(false);
  };
  EXPECT_TRUE(woken_by([&] { enqueue(*theirs, "q:a"); }));
  auto claimed = claim_one(*mine);
  EXPECT_TRUE(woken_by([&] { retry(*theirs, claimed); }));
  claimed = claim_one(*mine);
  EXPECT_TRUE(woken_by([&] { give_back(*theirs, claimed); }));
  pause(*mine);
  EXPECT_TRUE(woken_by([&] { pause(*theirs, false); }));
  limit_leases(*mine, 1);
  claimed = claim_one(*mine);
  enqueue(*mine, "q:b");
  EXPECT_TRUE(woken_by([&] { finish(*theirs, claimed); }));
}

INSTANTIATE_TEST_SUITE_P(Engines, QueueContract, testing::ValuesIn(queue_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
