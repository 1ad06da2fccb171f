// Claims on Redis: the counters they leave, and records of other software.

#include <gtest/gtest.h>

#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>

#include "engine/redis/record_commands.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

/// Tasks, over both halves of the engine.
class RedisClaims : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    locks.emplace(server->unix_socket(), "p");
    holdfast.emplace(open("unix:" + server->unix_socket().unix_socket + "?lock_prefix=p&task_prefix=t"));
    tasks.emplace(holdfast->tasks());
  }
  std::int64_t counter_ends_at(const std::string& id) {
    return locks->raw.integer({"PEXPIRETIME", "p:fence:p:" + Tasks::lock_key("alice", id)});
  }
  /// As another writer stores one: no incarnation, no expiry.
  void write_by_hand(const std::string& id, const std::string& status_message) {
    locks->raw.integer(
        {"HSET", "t:tasks:alice:" + id, "version", "1", "data",
         R"({"task":{"taskId":")" + id + R"(","status":"working","statusMessage":")" + status_message +
             R"(","createdAt":"2026-01-01T00:00:00.000Z","lastUpdatedAt":"2026-01-01T00:00:00.000Z","ttl":null},)"
             R"("ownerId":"alice","variables":{},"result":null,"requestMethod":"","expiresAt":null})"});
  }
  std::string stored_incarnation(const std::string& id) {
    return locks->raw.text({"HGET", "t:tasks:alice:" + id, "incarnation"});
  }

  static constexpr std::int64_t day_ms = 24LL * 60 * 60 * 1000;

  std::optional<RedisServer> server;
  std::optional<RedisLocks> locks;
  std::optional<Holdfast> holdfast;
  std::optional<Tasks> tasks;
};

TEST_F(RedisClaims, LeaveNoCounterForEver) {
  for (int i = 0; i < 3; ++i) {
    const auto task = tasks->create("alice");
    tasks->claim("alice", task.id).complete(Json::parse("1").value_or_throw());
    EXPECT_EQ(counter_ends_at(task.id), to_ms(*task.expires_at) + day_ms);
    EXPECT_TRUE(tasks->remove("alice", task.id));
    EXPECT_EQ(counter_ends_at(task.id), to_ms(*task.expires_at) + day_ms);
  }
}

TEST_F(RedisClaims, OfATaskThatNeverExpiresKeepItsCounter) {
  write_by_hand("theirs", "");
  EXPECT_TRUE(tasks->claim("alice", "theirs").release());
  EXPECT_EQ(counter_ends_at("theirs"), -1);
}

TEST_F(RedisClaims, GiveARecordOfOtherSoftwareAnIncarnation) {
  write_by_hand("theirs", "a");
  const auto as_read = tasks->get("alice", "theirs");
  EXPECT_TRUE(as_read.incarnation.starts_with('~')) << as_read.incarnation;
  write_by_hand("theirs", "b");
  auto claim = tasks->with_incarnation(as_read.incarnation).claim("alice", "theirs");
  EXPECT_EQ(claim.task().status_message, "b") << "a digest names no record for good";
  EXPECT_EQ(claim.task().incarnation, stored_incarnation("theirs"));
  EXPECT_EQ(claim.task().version, 1U);
  // The other software removes it and creates it again, just as it was.
  locks->raw.integer({"DEL", "t:tasks:alice:theirs"});
  write_by_hand("theirs", "b");
  try {
    (void)claim.complete(Json::parse("1").value_or_throw());
    FAIL() << "it was written to the successor";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NotFound);
  }
  EXPECT_TRUE(claim.gone());
}

TEST_F(RedisClaims, ARepeatedGuardKnowsTheIncarnationThatItGave) {
  write_by_hand("theirs", "a");
  const auto layout = redis::StorageLayout::make("t", 0).value_or_throw();
  const BindRecord request{.key = record_key("alice:theirs"),
                           .fence = token(3),
                           .incarnation = tasks->get("alice", "theirs").incarnation};
  const auto ask = [&](const std::string& id) {
    const auto command = redis::guard_command(layout, request, id, redis::By::text);
    return redis::guard_outcome(*locks->ask(command), request).value_or_throw();
  };
  for (int copy = 0; copy < 2; ++copy) {
    const auto answer = ask("mine");
    ASSERT_TRUE(std::holds_alternative<StoredRecord>(answer)) << copy;
    EXPECT_EQ(std::get<StoredRecord>(answer).incarnation, "mine");
    EXPECT_EQ(std::get<StoredRecord>(answer).bound_to, token(3));
  }
  EXPECT_TRUE(std::holds_alternative<NoRecord>(ask("another's")));
}

}  // namespace
}  // namespace holdfast::test
