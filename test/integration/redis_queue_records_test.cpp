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

}  // namespace
}  // namespace holdfast::test
