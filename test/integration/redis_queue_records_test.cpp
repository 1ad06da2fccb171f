// Records of a queue in Redis that other software removes, replaces or damages, or that are on another node
// while their slot moves: no other task waits for them forever, and none is lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "engine/redis/queue_commands.hpp"
#include "support/eventually.hpp"
#include "support/queue_calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class RedisQueueRecords : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    direct = make_redis_storage_backend(server->tcp()).value_or_throw();
    raw.emplace(server->raw());
  }

  [[nodiscard]] std::string final_text(milliseconds retention) const {
    return record_text({.expires_at = now_ms(*direct) + retention.count()});
  }
  void damage(const std::string& task) const {
    raw->text({"HSET", "pmcp:tasks:q:" + task, "version", "none"});
  }
  /// Repairs a task that was put aside because it could not be read, and lets the time until it is read again
  /// pass.
  void repair(const std::string& task) const {
    raw->text({"HSET", "pmcp:tasks:q:" + task, "version", "1"});
    EXPECT_EQ(raw->integer({"ZCARD", "pmcp:queue:delayed:q"}), 1) << "put aside, not lost";
    end_delay(task);
  }
  void end_delay(const std::string& task, const std::string& owner = "q") const {
    raw->text({"ZADD", "pmcp:queue:delayed:" + owner, "XX", "1", task});
    raw->text({"HDEL", "pmcp:queue:settings:" + owner, "look"});
  }
  /// The answer for a user that can reach no record but this one, as while their slot moves.
  [[nodiscard]] redis::Reply reaching_only(const RecordKey& key, const redis::RoutedCommand& command) const {
    raw->text({"ACL", "SETUSER", "one", "reset", "on", "nopass", "+@all", "allchannels", "~pmcp:queue:*",
               "~pmcp:idx:*", "~pmcp:tasks:" + std::string(key.owner()) + ":" + std::string(key.task())});
    auto user = server->raw();
    user.text({"AUTH", "one", "any"});
    return user.command(arguments_of(command));
  }

  const redis::StorageLayout layout = redis::StorageLayout::make("pmcp", 0).value_or_throw();
  const redis::QueueClient client{.layout = layout, .channels = "", .process = "AAAAAAAAAAAAAAAAAAAAAA"};
  std::optional<RedisServer> server;
  std::shared_ptr<StorageBackend> direct;
  mutable std::optional<RawRedis> raw;
};

TEST_F(RedisQueueRecords, ATaskWithoutALimitKeyThatReplacesARemovedOneLetsAParkedOneGo) {
  const QueueTerms keyed{.limit_key = "k"};
  for (const std::string how : {"deleted", "removed", "claimed_by_name"}) {
    for (const auto* task : {":a", ":b", ":c"}) enqueue(*direct, how + task, keyed);
    const auto first = claim_next(*direct, claim_terms(5), how).claimed;
    ASSERT_EQ(names_of(first), std::vector<std::string>{"a"});
    retry(*direct, first[0], 1h);
    EXPECT_EQ(queue_state(*direct, how + ":b").place, QueuePlace::ready);
    EXPECT_EQ(queue_state(*direct, how + ":c").place, QueuePlace::parked);
    raw->text({"DEL", "pmcp:tasks:" + how + ":b"});
    if (how != "deleted") raw->text({"ZREM", "pmcp:idx:" + how, "b"});
    std::set<std::string> claimed;
    if (how == "claimed_by_name") {  // before the old entry is found
      enqueue(*direct, how + ":b", {.not_before = direct->now() + 1h});
      claimed.emplace(std::get<ClaimedRecord>(claim_record(*direct, how + ":b")).key.task());
    } else {
      enqueue(*direct, how + ":b");
    }
    for (int i = 0; i < 2; ++i) {
      for (const auto& one : claim_next(*direct, claim_terms(), how).claimed) {
        claimed.emplace(one.key.task());
        finish(*direct, one);
      }
    }
    EXPECT_EQ(claimed, (std::set<std::string>{"b", "c"})) << how;
  }
}

TEST_F(RedisQueueRecords, ATaskThatCannotBeReadForAWhileIsClaimedAfterItsRepair) {
  enqueue(*direct, "q:bad");
  enqueue(*direct, "q:good");
  damage("bad");
  EXPECT_EQ(claim_one(*direct).key.task(), "good");
  EXPECT_EQ(claim_next(*direct, claim_terms()).claimed.size(), 0U);
  repair("bad");
  EXPECT_EQ(claim_one(*direct).key.task(), "bad");
}

TEST_F(RedisQueueRecords, AnExhaustedTaskThatCannotBeReadForAWhileIsReturnedAfterItsRepair) {
  enqueue(*direct, "q:bad", {.max_attempts = 1});
  retry(*direct, claim_one(*direct));
  EXPECT_EQ(queue_state(*direct, "q:bad").place, QueuePlace::exhausted);
  damage("bad");
  EXPECT_EQ(claim_next(*direct).exhausted.size(), 0U);
  repair("bad");
  EXPECT_EQ(names_of(claim_next(*direct).exhausted), std::vector<std::string>{"bad"});
}

TEST_F(RedisQueueRecords, TheTurnOfATaskThatCouldNotBeReachedIsNotLost) {
  for (const std::string how : {"removed", "cancelled", "too_old", "claimed_too_old"}) {
    enqueue(*direct, how + ":a", {.limit_key = "k"});
    const auto first = claim_one(*direct, claim_terms(), how);
    enqueue(*direct, how + ":x", {.max_age = 1ms, .limit_key = "k"});
    enqueue(*direct, how + ":c", {.limit_key = "k"});
    std::this_thread::sleep_for(2ms);
    const auto end = end_of(first, LeaseEnd::finished, "{}");
    const auto answer = reaching_only(
        first.key, redis::end_command(client, end, "BBBBBBBBBBBBBBBBBBBBBB", {}, redis::By::text));
    ASSERT_TRUE(std::holds_alternative<Written>(redis::end_outcome(*answer, end).value_or_throw().ended.end));
    ASSERT_EQ(queue_state(*direct, how + ":x").place, QueuePlace::parked);
    ASSERT_EQ(queue_state(*direct, how + ":c").place, QueuePlace::parked);
    if (how == "removed") {
      EXPECT_TRUE(remove(*direct, how + ":x"));
    } else if (how == "cancelled") {
      outcome(*direct,
              PutRecord{.key = record_key(how + ":x"), .data = record_data("{}"), .leaves_queue = true});
    } else if (how == "claimed_too_old") {
      EXPECT_TRUE(std::holds_alternative<NotClaimable>(claim_record(*direct, how + ":x")));
    } else {
      end_delay("x", how);
    }
    EXPECT_EQ(names_of(claim_next(*direct, claim_terms(), how).claimed), std::vector<std::string>{"c"})
        << how;
  }
}

TEST_F(RedisQueueRecords, AClaimDoesNotPostponeATaskThatItCouldNotReach) {
  enqueue(*direct, "q:a", {.limit_key = "k"});
  std::ignore = claim_one(*direct);  // nothing is to be done until its lease ends, in a minute
  enqueue(*direct, "q:x", {.limit_key = "k"});
  enqueue(*direct, "q:wide", {.limit_key = "k", .limit = 9});
  const ClaimNext request{.owner = "q", .terms = claim_terms(1, "worker", 10s)};
  const auto answer =
      reaching_only(record_key("q:wide"), redis::claim_command(client, request, {0, 1, ""}, redis::By::text));
  const auto claimed = redis::claim_outcome(*answer, request).value_or_throw().records.claimed;
  EXPECT_EQ(names_of(claimed), std::vector<std::string>{"wide"});
  const auto look = raw->text({"HGET", "pmcp:queue:settings:q", "look"});
  EXPECT_EQ(look, raw->text({"ZSCORE", "pmcp:queue:delayed:q", "x"}));
}

TEST_F(RedisQueueRecords, ManyParkedTasksThatWereRemovedArePassedInSteps) {
  const QueueTerms keyed{.limit_key = "k"};
  enqueue(*direct, "q:a", keyed);
  const auto first = claim_one(*direct);
  std::vector<std::string> removed{"DEL"};
  for (int i = 0; i < 250; ++i) {
    enqueue(*direct, "q:" + std::to_string(i), keyed);
    removed.emplace_back("pmcp:tasks:q:" + std::to_string(i));
  }
  enqueue(*direct, "q:last", keyed);
  EXPECT_EQ(count_queue(*direct).parked, 251U);
  raw->text(removed);
  finish(*direct, first, final_text(1ms));
  EXPECT_GE(count_queue(*direct).parked, 150U) << "a hundred in one call";
  std::vector<ClaimedRecord> claimed;
  for (int i = 0; i < 5 && claimed.empty(); ++i) {
    auto answer = claim_next(*direct);
    if (answer.claimed.empty()) {
      EXPECT_EQ(answer.look_again_after, 0ms);
    }
    claimed = std::move(answer.claimed);
  }
  ASSERT_EQ(names_of(claimed), std::vector<std::string>{"last"});
  EXPECT_EQ(raw->text({"HKEYS", "pmcp:queue:settings:q:keys"}), "last");
  EXPECT_TRUE(eventually([&] { return count_queue(*direct).records == 1; }));
}

TEST_F(RedisQueueRecords, AnExhaustedTaskThatOtherSoftwareRemovedLeavesNothingBehind) {
  enqueue(*direct, "q:later", {.not_before = direct->now() + 1h});
  enqueue(*direct, "q:x", {.max_attempts = 1, .limit_key = "k"});
  retry(*direct, claim_one(*direct));
  EXPECT_EQ(queue_state(*direct, "q:x").place, QueuePlace::exhausted);
  raw->text({"DEL", "pmcp:tasks:q:x"});
  EXPECT_TRUE(claim_next(*direct).exhausted.empty());
  EXPECT_EQ(raw->integer({"EXISTS", "pmcp:queue:settings:q:keys"}), 0);
}

TEST_F(RedisQueueRecords, ADeadLetterThatWasReplacedIsNotCountedForLongerThanItWasKept) {
  enqueue(*direct, "q:x");
  auto request = end_of(claim_one(*direct), LeaseEnd::finished, final_text(300ms));
  request.max_dead = 10;
  outcome(*direct, request);
  EXPECT_EQ(count_queue(*direct).dead, 1U);
  raw->text({"DEL", "pmcp:tasks:q:x"});
  raw->text({"ZREM", "pmcp:idx:q", "x"});
  enqueue(*direct, "q:x");
  EXPECT_TRUE(eventually([&] { return count_queue(*direct).dead == 0; }));
  EXPECT_EQ(claim_one(*direct).key.task(), "x");
}

}  // namespace
}  // namespace holdfast::test
