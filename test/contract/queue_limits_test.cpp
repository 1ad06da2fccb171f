// Queues: limits of keys, and dead letters. The random model of queue_model_test.cpp mixes them with the
// rest.

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <thread>

#include "contract/storage_contract.hpp"
#include "support/begun_wait.hpp"
#include "support/queue_calls.hpp"

namespace holdfast::test {
namespace {

class QueueLimits : public StorageContract {
 protected:
  static QueueTerms keyed(std::string key, std::uint32_t limit = 1, std::int32_t priority = 0) {
    return {.priority = priority, .limit_key = std::move(key), .limit = limit};
  }
  [[nodiscard]] QueuePlace place_of(const std::string& name) const {
    return queue_state(*theirs, "q:" + name).place;
  }
  /// The names of all that can be claimed now.
  [[nodiscard]] std::vector<std::string> claimable() const {
    return names_of(claim_next(*theirs, claim_terms(100)).claimed);
  }
  static EndedLease die(StorageBackend& backend, const ClaimedRecord& claimed, std::size_t max_dead = 0) {
    auto request = end_of(claimed, LeaseEnd::finished, R"({"failed":true})");
    request.max_dead = max_dead;
    return outcome(backend, request);
  }
  using Names = std::vector<std::string>;
};

TEST_P(QueueLimits, OneAtATimeOfAKeyAndOthersPass) {
  for (const auto* name : {"a1", "a2", "a3"}) enqueue(*mine, "q:" + std::string(name), keyed("a"));
  enqueue(*mine, "q:b1", keyed("b"));
  enqueue(*mine, "q:free");
  const auto terms = queue_state(*theirs, "q:a1").terms;
  EXPECT_EQ(terms.limit_key, "a");
  EXPECT_EQ(terms.limit, 1U);

  const auto claimed = claim_next(*mine, claim_terms(100)).claimed;
  EXPECT_EQ(names_of(claimed), (Names{"a1", "b1", "free"}));
  EXPECT_EQ(place_of("a2"), QueuePlace::parked);
  const auto counts = count_queue(*theirs);
  EXPECT_EQ(counts.parked, 2U);
  EXPECT_EQ(counts.ready, 0U);
  EXPECT_EQ(counts.leased, 3U);
  EXPECT_TRUE(claimable().empty());

  finish(*mine, claimed[0]);
  EXPECT_EQ(place_of("a2"), QueuePlace::ready);
  EXPECT_EQ(place_of("a3"), QueuePlace::parked);
  EXPECT_EQ(claimable(), Names{"a2"});
}

TEST_P(QueueLimits, ALimitAboveOneIsKept) {
  for (int i = 0; i < 7; ++i) enqueue(*mine, "q:" + std::to_string(i), keyed("k", 3));
  auto claimed = claim_next(*mine, claim_terms(100)).claimed;
  EXPECT_EQ(names_of(claimed), (Names{"0", "1", "2"}));
  std::set<std::string> done;
  while (!claimed.empty()) {
    EXPECT_LE(count_queue(*mine).leased, 3U);
    done.emplace(claimed.back().key.task());
    auto request = end_of(claimed.back(), LeaseEnd::finished, "final");
    request.then = claim_terms();
    claimed.pop_back();
    const auto ended = outcome(*mine, request);
    for (const auto& next : ended.next.value().claimed) claimed.push_back(next);
  }
  EXPECT_EQ(done.size(), 7U);
  EXPECT_EQ(count_queue(*mine).parked, 0U);
}

TEST_P(QueueLimits, EachEndOfALeaseLetsTheNextOneGo) {
  enqueue(*mine, "q:1", keyed("k"));
  enqueue(*mine, "q:2", keyed("k"));
  const auto expect_next = [&](const ClaimedRecord& ended, const char* what) {
    const auto next = claim_next(*mine, claim_terms(100)).claimed;
    EXPECT_EQ(next.size(), 1U) << what;
    return next.empty() ? ended : next.front();
  };
  auto claimed = claim_one(*mine);
  retry(*mine, claimed);
  claimed = expect_next(claimed, "retried");
  EXPECT_EQ(claimed.key.task(), "2");
  give_back(*mine, claimed);
  claimed = expect_next(claimed, "given back");
  EXPECT_EQ(claimed.key.task(), "2") << "its old place";
  retry(*mine, claimed, 1h);
  claimed = expect_next(claimed, "delayed");
  EXPECT_EQ(claimed.key.task(), "1");
  enqueue(*mine, "q:3", keyed("k"));
  EXPECT_EQ(place_of("3"), QueuePlace::parked) << "at once, because its key is at its limit";
  outcome(*theirs, PutRecord{.key = claimed.key, .data = record_data("cancelled"), .leaves_queue = true});
  claimed = expect_next(claimed, "cancelled");
  enqueue(*mine, "q:4", keyed("k"));
  EXPECT_TRUE(remove(*theirs, claimed.key.str()));
  claimed = expect_next(claimed, "removed");
  EXPECT_EQ(claimed.key.task(), "4");
}

TEST_P(QueueLimits, AParkedRecordComesBackByPriorityThenAtItsOldPlace) {
  enqueue(*mine, "q:first", keyed("k"));
  enqueue(*mine, "q:low", keyed("k", 1, -1));
  enqueue(*mine, "q:second", keyed("k"));
  enqueue(*mine, "q:third", keyed("k"));
  const auto first = claim_next(*mine, claim_terms(100)).claimed;
  ASSERT_EQ(names_of(first), Names{"first"});
  enqueue(*mine, "q:free");  // behind those that are parked
  enqueue(*mine, "q:high", keyed("k", 1, 1));
  finish(*mine, first[0]);
  const auto high = claim_next(*mine, claim_terms(1)).claimed;
  ASSERT_EQ(names_of(high), Names{"high"});
  finish(*mine, high[0]);
  const auto both = claim_next(*mine, claim_terms(100)).claimed;
  ASSERT_EQ(names_of(both), (Names{"second", "free"}));
  finish(*mine, both[0]);
  const auto third = claim_one(*mine);
  EXPECT_EQ(third.key.task(), "third");
  finish(*mine, third);
  EXPECT_EQ(claim_one(*mine).key.task(), "low");
}

TEST_P(QueueLimits, AClaimByNameObeysTheLimit) {
  enqueue(*mine, "q:a", keyed("k"));
  enqueue(*mine, "q:b", keyed("k"));
  enqueue(*mine, "q:later", {.not_before = mine->now() + 1h, .limit_key = "k"});
  const auto claimed = std::get<ClaimedRecord>(claim_record(*mine, "q:b"));
  for (const auto* key : {"q:a", "q:later"}) {
    EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_record(*theirs, key))) << key;
  }
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  const auto refused = std::get<NotClaimable>(claim_record(*theirs, "q:a"));
  EXPECT_EQ(refused.record.queue->place, QueuePlace::parked);
  finish(*mine, claimed);
  const auto early = std::get<ClaimedRecord>(claim_record(*theirs, "q:later"));
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  give_back(*theirs, early);
  EXPECT_EQ(place_of("later"), QueuePlace::delayed);
  EXPECT_EQ(claimable(), Names{"a"});
}

TEST_P(QueueLimits, AParkedRecordThatLeavesHoldsNothingUp) {
  for (const auto* key : {"q:a", "q:b", "q:c", "q:d"}) enqueue(*mine, key, keyed("k"));
  const auto claimed = claim_next(*mine, claim_terms(100)).claimed;
  ASSERT_EQ(names_of(claimed), Names{"a"});
  EXPECT_TRUE(remove(*theirs, "q:b"));
  outcome(*theirs,
          PutRecord{.key = record_key("q:c"), .data = record_data("cancelled"), .leaves_queue = true});
  EXPECT_EQ(count_queue(*mine).parked, 1U);
  finish(*mine, claimed[0]);
  EXPECT_EQ(claimable(), Names{"d"});
}

TEST_P(QueueLimits, AReadyRecordOfTheKeyThatLeavesPassesItsTurnOn) {
  for (const auto* key : {"q:a", "q:b", "q:c", "q:d"}) enqueue(*mine, key, keyed("k"));
  finish(*mine, claim_next(*mine, claim_terms(100)).claimed.at(0));
  EXPECT_EQ(place_of("b"), QueuePlace::ready);
  EXPECT_EQ(place_of("c"), QueuePlace::parked);
  EXPECT_TRUE(remove(*theirs, "q:b"));
  EXPECT_EQ(place_of("c"), QueuePlace::ready);
  outcome(*theirs,
          PutRecord{.key = record_key("q:c"), .data = record_data("cancelled"), .leaves_queue = true});
  EXPECT_EQ(claimable(), Names{"d"});
}

TEST_P(QueueLimits, AHigherLimitIsUsedAfterALowerOne) {
  for (int i = 0; i < 7; ++i) enqueue(*mine, "q:" + std::to_string(i), keyed("k", 3));
  const auto claimed = claim_next(*mine, claim_terms(100)).claimed;
  EXPECT_EQ(claimed.size(), 3U);
  enqueue(*mine, "q:alone", keyed("k", 1, 1));
  EXPECT_EQ(count_queue(*mine).parked, 5U) << "its own limit counts";
  // Each end lets this one go, as long as it may not be claimed.
  for (const auto& one : claimed) {
    EXPECT_TRUE(claimable().empty());
    finish(*mine, one);
  }
  const auto alone = claim_next(*mine, claim_terms(100)).claimed;
  EXPECT_EQ(names_of(alone), Names{"alone"});
  finish(*mine, alone.at(0));
  EXPECT_EQ(claim_next(*mine, claim_terms(100)).claimed.size(), 3U) << "each claim looks for more room";
}

TEST_P(QueueLimits, KeysOfQueuesAreApartAndMayBeAnyText) {
  const std::string longest(256, 'x');
  for (const auto& key :
       {std::string("k"), std::string("kk"), std::string("k\0", 2), std::string("鍵"), longest}) {
    enqueue(*mine, "q:1" + key, keyed(key));
    enqueue(*mine, "q:2" + key, keyed(key));
    enqueue(*mine, "other:1" + key, keyed(key));
  }
  EXPECT_EQ(claimable().size(), 5U);
  EXPECT_EQ(claim_next(*mine, claim_terms(100), "other").claimed.size(), 5U);
  const auto refused = [&](QueueTerms terms) {
    const auto answer = call(
        *mine, CreateRecord{.key = record_key("q:no"), .data = record_data("{}"), .queue = std::move(terms)});
    return answer ? std::nullopt : std::optional(answer.error().code());
  };
  EXPECT_EQ(refused(keyed(longest + "x")), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused(keyed("\xFF")), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused(keyed("k", 0)), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused(keyed("k", 1'000'001)), ErrorCode::InvalidArgument);
}

TEST_P(QueueLimits, ManyParkedRecordsDoNotHideTheOthers) {
  for (int i = 0; i < 250; ++i) enqueue(*mine, "q:k" + std::to_string(i), keyed("k"));
  enqueue(*mine, "q:free");
  EXPECT_EQ(claim_one(*mine).key.task(), "k0");
  // One claim passes a hundred.
  std::vector<ClaimedRecord> claimed;
  int claims = 0;
  while (claimed.empty() && ++claims < 5) {
    auto next = claim_next(*mine);
    if (next.claimed.empty()) {
      EXPECT_EQ(next.look_again_after, 0ms) << "its work is bounded";
    }
    claimed = std::move(next.claimed);
  }
  EXPECT_EQ(names_of(claimed), Names{"free"});
  EXPECT_EQ(claims, 3);
  EXPECT_EQ(count_queue(*mine).parked, 249U);
}

TEST_P(QueueLimits, NeverMoreThanTheLimitWithSeveralWorkers) {
  for (int i = 0; i < 40; ++i)
    enqueue(*mine, "q:" + std::to_string(i), keyed(i % 2 == 0 ? "even" : "odd", 2));
  std::atomic<int> even = 0, odd = 0, done = 0;
  std::atomic<bool> exceeded = false;
  const auto work = [&](StorageBackend& backend) {
    for (int empty = 0; done < 40 && empty < 2000;) {
      const auto claimed = claim_next(backend).claimed;
      if (claimed.empty()) {
        ++empty;
        std::this_thread::sleep_for(1ms);
        continue;
      }
      auto& running = claimed[0].record.queue->terms.limit_key == "even" ? even : odd;
      if (++running > 2) exceeded = true;
      --running;  // before its lease ends
      finish(backend, claimed[0]);
      ++done;
    }
  };
  {
    const std::jthread first([&] { work(*mine); }), second([&] { work(*theirs); }),
        third([&] { work(*mine); });
  }
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(done, 40);
  EXPECT_EQ(count_queue(*mine).parked, 0U);
}

TEST_P(QueueLimits, AFreedKeyWakesAWorker) {
  enqueue(*mine, "q:a", keyed("k"));
  enqueue(*mine, "q:b", keyed("k"));
  const auto claimed = claim_one(*mine);
  const auto watch = call(*mine, WatchQueue{.owner = "q"}).value_or_throw();
  if (!watch) GTEST_SKIP() << "this engine cannot wake";
  EXPECT_TRUE(claim_next(*mine).claimed.empty());
  const BegunWait wait(*watch, never, BootClock::now() + 20s);
  finish(*theirs, claimed);
  EXPECT_TRUE(wait.end().value_or(false));
}

TEST_P(QueueLimits, AFailedRecordIsADeadLetter) {
  enqueue(*mine, "q:fails");
  enqueue(*mine, "q:works");
  enqueue(*mine, "q:exhausted");
  const auto claimed = claim_next(*mine, claim_terms(3)).claimed;
  EXPECT_TRUE(std::holds_alternative<Written>(die(*mine, claimed[0]).end));
  finish(*mine, claimed[1]);
  outcome(
      *mine,
      PutRecord{.key = claimed[2].key, .data = record_data("too old"), .leaves_queue = true, .max_dead = 0});
  EXPECT_EQ(place_of("fails"), QueuePlace::dead);
  EXPECT_EQ(place_of("works"), QueuePlace::finished);
  EXPECT_EQ(place_of("exhausted"), QueuePlace::dead);
  const auto counts = count_queue(*theirs);
  EXPECT_EQ(counts.dead, 2U);
  EXPECT_EQ(counts.records, 3U);
  EXPECT_EQ(counts.leased, 0U);
  // Nothing brings it back, and nothing makes another one of it.
  EXPECT_TRUE(std::holds_alternative<LeaseEnded>(retry(*mine, claimed[0]).end));
  put(*mine, "q:fails", "changed");
  outcome(*mine, PutRecord{.key = claimed[0].key, .data = record_data("again"), .leaves_queue = true});
  EXPECT_EQ(place_of("fails"), QueuePlace::dead);
  EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_record(*mine, "q:fails")));
  EXPECT_TRUE(remove(*mine, "q:fails"));
  EXPECT_EQ(count_queue(*theirs).dead, 1U);
  EXPECT_TRUE(remove(*mine, "q:exhausted"));
  EXPECT_EQ(count_queue(*theirs).dead, 0U);
}

TEST_P(QueueLimits, TheOldestDeadLettersMakeRoom) {
  // In another order than they were created in.
  const Names order = {"3", "0", "4", "1", "2"};
  for (int i = 0; i < 5; ++i) enqueue(*mine, "q:" + std::to_string(i));
  for (const auto& name : order) {
    die(*mine, std::get<ClaimedRecord>(claim_record(*mine, "q:" + name)), 3);
    world->reach(now_ms(*mine) + 5);
  }
  const auto dead = outcome(*theirs, ListRecords{.prefix = "q:", .only_dead = true});
  Names names;
  for (const auto& listed : dead.records) names.emplace_back(listed.key.task());
  EXPECT_EQ(names, (Names{"4", "1", "2"}));
  EXPECT_FALSE(get(*mine, "q:3"));
  EXPECT_FALSE(get(*mine, "q:0"));
  const auto counts = count_queue(*mine);
  EXPECT_EQ(counts.dead, 3U);
  EXPECT_EQ(counts.records, 3U);
}

TEST_P(QueueLimits, DeadLettersAreListedInPagesByWhenTheyDied) {
  for (int i = 0; i < 20; ++i) enqueue(*mine, "q:live" + std::to_string(i));
  for (int i = 0; i < 5; ++i) enqueue(*mine, "q:" + std::to_string(i), {.priority = 1});
  for (int i = 0; i < 5; ++i) {
    die(*mine, claim_one(*mine));
    world->reach(now_ms(*mine) + 5);
  }
  for (const auto order : {ListOrder::oldest_first, ListOrder::newest_first}) {
    Names names;
    ListRecords request{.prefix = "q:", .limit = 2, .order = order, .only_dead = true};
    int pages = 0;
    do {
      const auto page = outcome(*theirs, request);
      for (const auto& listed : page.records) {
        names.emplace_back(listed.key.task());
        EXPECT_EQ(listed.record.queue->place, QueuePlace::dead);
      }
      request.after = page.next;
    } while (request.after && ++pages < 10);
    if (order == ListOrder::newest_first) std::ranges::reverse(names);
    EXPECT_EQ(names, (Names{"0", "1", "2", "3", "4"}));
  }
  EXPECT_TRUE(outcome(*theirs, ListRecords{.prefix = "none:", .only_dead = true}).records.empty());
}

INSTANTIATE_TEST_SUITE_P(Engines, QueueLimits, testing::ValuesIn(queue_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
