// Queues in time: delays, leases that expire, ages. On a hand clock to the millisecond; elsewhere by waiting.

#include <algorithm>

#include "contract/storage_contract.hpp"
#include "support/queue_calls.hpp"

namespace holdfast::test {
namespace {

class QueueInTime : public StorageContract {
 protected:
  [[nodiscard]] std::int64_t now() const { return now_ms(*mine); }
  /// Lets this much time pass.
  void pass(milliseconds time) const { world->reach(now() + time.count()); }
  /// Exact on a hand clock; on a clock that runs, at most this.
  static void expect_time(std::optional<milliseconds> found, milliseconds expected) {
    ASSERT_TRUE(found);
    if (GetParam().hand_clock) {
      EXPECT_EQ(*found, expected);
    } else {
      EXPECT_LE(*found, expected + 25ms);  // a server's clock may differ from our idea of it
    }
  }
  /// A lease or a delay to wait for. Nothing else that a test does takes as long.
  const milliseconds brief = GetParam().hand_clock ? 250ms : 1s;
  [[nodiscard]] ClaimTerms briefly() const { return claim_terms(1, "brief", brief); }
  /// The first record that is claimed by requests that are repeated as long as they end early.
  [[nodiscard]] std::string search_one(milliseconds searched = {}) const {
    for (;;) {
      const auto found =
          outcome(*mine, ClaimNext{.owner = "q", .terms = claim_terms(), .searched = searched});
      if (!found.claimed.empty()) return std::string(found.claimed.front().key.task());
      if (found.look_again_after != 0ms) return "none";
    }
  }
};

TEST_P(QueueInTime, ADelayedRecordIsClaimableWhenItsTimeHasCome) {
  const auto due = from_ms(now()) + brief;
  enqueue(*mine, "q:t", {.not_before = due, .max_age = 1h});
  const auto state = queue_state(*theirs, "q:t");
  EXPECT_EQ(state.place, QueuePlace::delayed);
  EXPECT_EQ(state.due_at, due);
  EXPECT_EQ(state.fails_at, due + 1h);
  const auto counts = count_queue(*mine);
  EXPECT_EQ(counts.delayed, 1U);
  EXPECT_EQ(counts.next_due, due);
  EXPECT_FALSE(counts.oldest_ready);
  const auto early = claim_next(*mine);
  EXPECT_TRUE(early.claimed.empty());
  expect_time(early.look_again_after, brief);
  world->reach(to_ms(due));
  EXPECT_EQ(claim_one(*theirs).key.task(), "t");
}

TEST_P(QueueInTime, ATimeInThePastDelaysNothing) {
  enqueue(*mine, "q:t", {.not_before = from_ms(now()) - 1h, .max_age = 1s});
  EXPECT_EQ(queue_state(*mine, "q:t").place, QueuePlace::ready);
  EXPECT_EQ(claim_one(*mine).key.task(), "t");
}

TEST_P(QueueInTime, DelayedRecordsComeInTheOrderOfTheirTimes) {
  const auto start = from_ms(now());
  enqueue(*mine, "q:later", {.not_before = start + brief + 2ms});
  enqueue(*mine, "q:b", {.not_before = start + brief});
  enqueue(*mine, "q:a", {.not_before = start + brief});
  enqueue(*mine, "q:urgent", {.priority = 1, .not_before = start + brief + 2ms});
  enqueue(*mine, "q:ready");
  world->reach(to_ms(start + brief + 2ms));
  EXPECT_EQ(names_of(claim_next(*theirs, claim_terms(10)).claimed),
            (std::vector<std::string>{"urgent", "ready", "a", "b", "later"}));
}

TEST_P(QueueInTime, OfManyDelayedRecordsThatAreDueTheFirstByPriorityIsClaimedFirst) {
  const auto due = from_ms(now()) + brief;
  for (int i = 0; i < 130; ++i) enqueue(*mine, "q:" + std::to_string(i), {.not_before = due});
  enqueue(*mine, "q:urgent", {.priority = 1, .not_before = due + 1ms});
  world->reach(to_ms(due + 1ms));
  EXPECT_EQ(search_one(), "urgent");
  std::size_t claimed = 0;
  for (int rounds = 0; rounds < 2; ++rounds) claimed += claim_next(*mine, claim_terms(100)).claimed.size();
  EXPECT_EQ(claimed, 130U);
}

TEST_P(QueueInTime, OfManyExpiredLeasesTheFirstByPriorityIsClaimedFirst) {
  enqueue(*mine, "q:urgent", {.priority = 1});
  EXPECT_EQ(claim_one(*mine, claim_terms(1, "dies", brief + 200ms)).key.task(), "urgent");
  for (int i = 0; i < 130; ++i) enqueue(*mine, "q:" + std::to_string(i));
  for (const auto limit : {std::size_t{100}, std::size_t{30}})
    claim_next(*mine, claim_terms(limit, "dies", brief));
  pass(brief + 200ms);
  EXPECT_EQ(search_one(), "urgent");
}

TEST_P(QueueInTime, WhatBecameDueDuringASearchDoesNotHoldItBack) {
  const auto due = from_ms(now()) + brief;
  for (int i = 0; i < 130; ++i) enqueue(*mine, "q:" + std::to_string(i), {.not_before = due});
  world->reach(to_ms(due));
  EXPECT_EQ(search_one(1h), "0");
  EXPECT_GT(count_queue(*theirs).delayed, 0U);
}

TEST_P(QueueInTime, AnExpiredLeaseFreesItsRecord) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  const auto first = claim_one(*mine, briefly());
  EXPECT_EQ(first.key.task(), "a");
  pass(brief);
  // A reader sees the old state until a claim moves the record, which goes behind.
  EXPECT_EQ(queue_state(*mine, "q:a").place, QueuePlace::leased);
  EXPECT_EQ(count_queue(*theirs).leased, 1U);
  EXPECT_EQ(count_queue(*theirs).expired, 1U);
  EXPECT_EQ(claim_one(*theirs).key.task(), "b");
  EXPECT_EQ(count_queue(*mine).leased, 1U);
  EXPECT_EQ(count_queue(*mine).expired, 0U);
  EXPECT_EQ(queue_state(*mine, "q:a").place, QueuePlace::ready);
  const auto second = claim_one(*theirs, claim_terms(1, "second"));
  EXPECT_EQ(second.key.task(), "a");
  EXPECT_EQ(second.record.queue->attempts, 2U);
  EXPECT_EQ(second.record.queue->deaths, 1U);
  EXPECT_EQ(second.record.queue->worker, "second");
  EXPECT_GT(second.record.bound_to->fence, first.record.bound_to->fence);
  EXPECT_FALSE(renew(*mine, first).is_held);
  EXPECT_NE(refused_with(ErrorCode::StaleFence, finish(*mine, first).end), nullptr);
  EXPECT_TRUE(std::holds_alternative<Written>(finish(*theirs, second).end));
}

TEST_P(QueueInTime, AnEmptyClaimKnowsWhenALeaseExpires) {
  enqueue(*mine, "q:t");
  claim_one(*mine, briefly());
  const auto empty = claim_next(*theirs);
  EXPECT_TRUE(empty.claimed.empty());
  expect_time(empty.look_again_after, brief);
  pass(brief);
  EXPECT_EQ(claim_one(*theirs).key.task(), "t");
}

TEST_P(QueueInTime, AnOutcomeIsAcceptedAfterTheLeaseIfNoOtherClaimCame) {
  for (const bool moved : {false, true}) {
    enqueue(*mine, "q:t");
    const auto claimed = claim_one(*mine, briefly());
    pass(brief);
    if (moved) {
      pause(*theirs);
      EXPECT_TRUE(claim_next(*theirs).claimed.empty());
      EXPECT_EQ(queue_state(*theirs, "q:t").place, QueuePlace::ready);
      pause(*theirs, false);
    }
    EXPECT_FALSE(renew(*mine, claimed).is_held);
    EXPECT_TRUE(std::holds_alternative<Written>(finish(*mine, claimed).end));
    EXPECT_TRUE(claim_next(*theirs).claimed.empty());
    EXPECT_EQ(queue_state(*theirs, "q:t").deaths, moved ? 1U : 0U);
    remove(*mine, "q:t");
  }
}

TEST_P(QueueInTime, ALeaseThatExpiredIsNotGivenBack) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine, briefly());
  pass(brief);
  pause(*theirs);
  claim_next(*theirs);  // it counts the death
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(give_back(*mine, claimed).end));
  const auto state = queue_state(*mine, "q:t");
  EXPECT_EQ(state.place, QueuePlace::ready);
  EXPECT_EQ(state.attempts, 1U);
  EXPECT_EQ(state.deaths, 1U);
}

TEST_P(QueueInTime, ARenewalProlongsALeaseButNeverRevivesIt) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine, briefly());
  const auto renewed = renew(*mine, claimed, 1min);
  EXPECT_TRUE(renewed.is_held);
  EXPECT_EQ(renewed.lasts, 1min);
  pass(brief);
  EXPECT_TRUE(claim_next(*theirs).claimed.empty());
  EXPECT_TRUE(renew(*mine, claimed, 50ms).is_held);
  pass(50ms);
  EXPECT_FALSE(renew(*mine, claimed).is_held);
  EXPECT_EQ(claim_one(*theirs).record.queue->deaths, 1U);
}

TEST_P(QueueInTime, AnAttemptEndsAtItsTimeLimitWhateverIsRenewed) {
  enqueue(*mine, "q:t", {.attempt_limit = brief});
  const auto claimed = claim_one(*mine);
  EXPECT_EQ(claimed.record.queue->lease_expires_at, claimed.record.queue->claimed_at + brief);
  pass(100ms);
  const auto renewed = renew(*mine, claimed);
  EXPECT_TRUE(renewed.is_held);
  expect_time(renewed.lasts, brief - 100ms);
  pass(brief - 100ms);
  EXPECT_FALSE(renew(*mine, claimed).is_held);
  EXPECT_EQ(claim_one(*theirs).record.queue->attempts, 2U);
}

TEST_P(QueueInTime, DeathsExhaustARecord) {
  enqueue(*mine, "q:t", {.max_attempts = 2});
  for (int i = 0; i < 2; ++i) {
    claim_one(*mine, briefly());
    pass(brief);
  }
  const auto last = claim_next(*theirs);
  EXPECT_TRUE(last.claimed.empty());
  EXPECT_FALSE(last.look_again_after);
  ASSERT_EQ(names_of(last.exhausted), std::vector<std::string>{"t"});
  EXPECT_EQ(last.exhausted[0].record.queue->attempts, 2U);
  EXPECT_EQ(last.exhausted[0].record.queue->deaths, 2U);
}

TEST_P(QueueInTime, ARecordIsExhaustedWhenItIsTooOld) {
  enqueue(*mine, "q:old", {.max_age = brief});
  enqueue(*mine, "q:young");
  enqueue(*mine, "q:delayed", {.not_before = from_ms(now()) + 50ms, .max_age = brief});
  pass(brief + 50ms);
  const auto claims = claim_next(*theirs, claim_terms(10));
  EXPECT_EQ(names_of(claims.claimed), std::vector<std::string>{"young"});
  auto exhausted = names_of(claims.exhausted);
  std::sort(exhausted.begin(), exhausted.end());
  EXPECT_EQ(exhausted, (std::vector<std::string>{"delayed", "old"}));
  EXPECT_EQ(queue_state(*mine, "q:old").attempts, 0U);
}

TEST_P(QueueInTime, ARecordThatIsTooOldIsNotClaimedByItsName) {
  enqueue(*mine, "q:t", {.max_age = brief});
  pass(brief);
  const auto answer = claim_record(*theirs, "q:t");
  EXPECT_EQ(std::get<NotClaimable>(answer).record.queue->place, QueuePlace::exhausted);
  EXPECT_EQ(names_of(claim_next(*mine).exhausted), std::vector<std::string>{"t"});
}

TEST_P(QueueInTime, AClaimByNameRemovesAnExpiredLease) {
  enqueue(*mine, "q:t");
  const auto first = claim_one(*mine, briefly());
  EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_record(*theirs, "q:t")));
  pass(brief);
  const auto answer = claim_record(*theirs, "q:t");
  const auto& second = std::get<ClaimedRecord>(answer);
  EXPECT_EQ(second.record.queue->attempts, 2U);
  EXPECT_EQ(second.record.queue->deaths, 1U);
  EXPECT_GT(second.record.bound_to->fence, first.record.bound_to->fence);
}

TEST_P(QueueInTime, ExpiredLeasesDoNotCountForALimit) {
  enqueue(*mine, "q:a");
  enqueue(*mine, "q:b");
  limit_leases(*mine, 1);
  claim_one(*mine, briefly());
  EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_record(*theirs, "q:b")));
  pass(brief);
  EXPECT_TRUE(std::holds_alternative<ClaimedRecord>(claim_record(*theirs, "q:b")));
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
}

TEST_P(QueueInTime, ARetryCanBeDelayed) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine);
  const auto before = now();
  retry(*mine, claimed, brief);
  const auto state = queue_state(*theirs, "q:t");
  EXPECT_EQ(state.place, QueuePlace::delayed);
  EXPECT_GE(state.due_at, from_ms(before) + brief - 25ms);
  const auto early = claim_next(*mine);
  EXPECT_TRUE(early.claimed.empty());
  expect_time(early.look_again_after, brief);
  world->reach(to_ms(state.due_at));
  EXPECT_EQ(claim_one(*theirs).record.queue->attempts, 2U);
}

TEST_P(QueueInTime, AnExpiredRecordIsNotClaimed) {
  const auto expires_at = now() + brief.count();
  enqueue(*mine, "q:t", {}, record_text({.expires_at = expires_at}));
  world->reach(expires_at);
  EXPECT_TRUE(claim_next(*theirs).claimed.empty());
  EXPECT_TRUE(std::holds_alternative<NoRecord>(claim_record(*theirs, "q:t")));
  EXPECT_EQ(enqueue(*mine, "q:t").version, 1U);
  EXPECT_EQ(claim_one(*theirs).key.task(), "t");
}

TEST_P(QueueInTime, AFinishedAndExpiredRecordLeavesNothing) {
  enqueue(*mine, "q:t");
  const auto expires_at = now() + brief.count();
  finish(*mine, claim_one(*mine), record_text({.expires_at = expires_at}));
  EXPECT_EQ(count_queue(*mine).records, 1U);
  world->reach(expires_at);
  EXPECT_FALSE(get(*mine, "q:t"));
  outcome(*mine, CleanupRecords{});
  EXPECT_EQ(count_queue(*mine).records, 0U);
  EXPECT_TRUE(owners_of(*mine).empty());
}

TEST_P(QueueInTime, TheFirstReadyRecordTellsSinceWhen) {
  const auto before = from_ms(now());
  enqueue(*mine, "q:t");
  const auto counts = count_queue(*theirs);
  ASSERT_TRUE(counts.oldest_ready);
  EXPECT_EQ(*counts.oldest_ready, queue_state(*mine, "q:t").due_at);
  EXPECT_GE(*counts.oldest_ready, before - 1s);
}

/// Hand clocks where there are any; servers have none.
std::vector<StorageEngine> timed_engines() {
  auto engines = queue_engines();
  std::erase_if(engines, [](const StorageEngine& engine) {
    return !engine.hand_clock && engine.name != "redis_tcp" && engine.name != "redis_native";
  });
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines, QueueInTime, testing::ValuesIn(timed_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
