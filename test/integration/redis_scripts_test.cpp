#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "embedded/scripts.hpp"
#include "engine/redis/script.hpp"
#include "engine/redis/wire/errors.hpp"
#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using redis::Release;

class RedisScripts : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    locks.emplace(server->unix_socket(), "p");
  }

  bool exists(const std::string& name) { return locks->raw.integer({"EXISTS", name}) == 1; }
  std::string get(const std::string& name) { return locks->raw.text({"GET", name}); }
  std::int64_t ends_at(const std::string& name) { return locks->raw.integer({"PEXPIRETIME", name}); }

  std::optional<RedisServer> server;
  std::optional<RedisLocks> locks;
  const LockId id = LockId::generate();
  const LockId other = LockId::generate();
};

TEST_F(RedisScripts, HaveTheNamesThatTheServerGivesThem) {
  using namespace redis::embedded;
  for (const auto text : {acquire_lua, release_lua, release_for_good_lua, extend_lua, lookup_lua,
                          is_locked_lua, cleanup_lua, records_lua, break_lua, release_evidence_lua}) {
    EXPECT_EQ(locks->raw.text({"SCRIPT", "LOAD", std::string(text)}), redis::Script(text).sha1);
  }
}

TEST_F(RedisScripts, AreTaughtToTheServerByTheirText) {
  const AcquireRequest request{.id = id, .key = key("k"), .ttl = ttl(60s)};
  const auto by_sha = locks->locks->acquire(request, {}, redis::By::sha).value_or_throw();
  const auto by_text = locks->locks->acquire(request, {}, redis::By::text).value_or_throw();
  EXPECT_TRUE(redis::is_noscript(*locks->ask(by_sha)));
  EXPECT_TRUE(locks->locks->acquired(*locks->ask(by_text), request));
  EXPECT_TRUE(locks->locks->acquired(*locks->ask(by_sha), request));
  locks->raw.text({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(redis::is_noscript(*locks->ask(by_sha)));
}

TEST_F(RedisScripts, AGrantIsStoredAsDocumented) {
  const auto granted = locks->acquire(id, "k");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->fence.value(), 1U);
  const auto record = json::parse(get("p:k"));
  EXPECT_EQ(record, (json{{"lockId", id.str()},
                          {"expiresAtMs", to_ms(granted->expires_at)},
                          {"acquiredAtMs", to_ms(granted->expires_at) - 60'000},
                          {"key", "k"},
                          {"fence", "000000000000001"}}));
  EXPECT_EQ(get("p:id:" + std::string(id.str())), "p:k");
  EXPECT_EQ(get("p:fence:p:k"), "1");
  // Redis still shows a key in the very millisecond of its PXAT; the lock is gone when its own begins.
  EXPECT_EQ(ends_at("p:k"), to_ms(granted->expires_at) - 1);
  EXPECT_EQ(ends_at("p:id:" + std::string(id.str())), to_ms(granted->expires_at) - 1);
  EXPECT_EQ(ends_at("p:fence:p:k"), -1);
  EXPECT_EQ(get("p:fence:p:"), granted->authority);
  EXPECT_EQ(ends_at("p:fence:p:"), -1);
  EXPECT_EQ(locks->raw.integer({"DBSIZE"}), 4);
}

TEST_F(RedisScripts, ARefusalTellsForHowLongAndUsesUpNoFence) {
  ASSERT_TRUE(locks->acquire(id, "k", 60s));
  const auto outcome = locks->try_acquire(other, "k").value_or_throw();
  const auto* refused = std::get_if<Refused>(&outcome);
  ASSERT_NE(refused, nullptr);
  EXPECT_GT(*refused->free_in, 50s);
  EXPECT_LE(*refused->free_in, 60s);
  EXPECT_EQ(get("p:fence:p:k"), "1");
  EXPECT_FALSE(exists(locks->index_key(other)));
}

TEST_F(RedisScripts, TheSameIdIsAnsweredAsTheFirstTime) {
  const auto first = locks->acquire(id, "k", 60s);
  const auto before = get("p:k");
  const auto again = locks->acquire(id, "k", 30s);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(again->fence, first->fence);
  EXPECT_EQ(again->expires_at, first->expires_at);
  EXPECT_EQ(again->authority, first->authority);
  EXPECT_EQ(get("p:k"), before);
  EXPECT_EQ(ends_at("p:k"), to_ms(first->expires_at) - 1);
}

TEST_F(RedisScripts, ARecordInItsLastMillisecondIsRefusedForAMillisecondAndNotForASecond) {
  const auto now = locks->raw.now_ms();
  const json record{{"lockId", other.str()},
                    {"expiresAtMs", now},
                    {"acquiredAtMs", now - 1000},
                    {"key", "k"},
                    {"fence", "000000000000001"}};
  locks->raw.text({"SET", "p:k", record.dump(), "PX", "60000"});
  auto outcome = locks->try_acquire(id, "k").value_or_throw();
  ASSERT_TRUE(std::holds_alternative<Refused>(outcome));
  EXPECT_EQ(std::get<Refused>(outcome).free_in, 1ms) << "Redis is about to drop it";
  locks->raw.integer({"PERSIST", "p:k"});
  outcome = locks->try_acquire(id, "k").value_or_throw();
  ASSERT_TRUE(std::holds_alternative<Refused>(outcome));
  EXPECT_GT(std::get<Refused>(outcome).free_in, 1ms) << "without a TTL it counts for a second longer";
  EXPECT_LE(std::get<Refused>(outcome).free_in, 1000ms);
}

TEST_F(RedisScripts, ACounterBelowZeroGrantsNothingAndStaysAsItIs) {
  for (const std::string bad : {"-5", "-1"}) {
    locks->raw.text({"SET", "p:fence:p:k", bad});
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto result = locks->try_acquire(LockId::generate(), "k");
      ASSERT_FALSE(result) << bad;
      EXPECT_EQ(result.error().code(), ErrorCode::Internal);
      EXPECT_NE(result.error().message().find("below zero"), std::string::npos);
      EXPECT_FALSE(exists("p:k"));
      EXPECT_EQ(get("p:fence:p:k"), bad) << "counting up would repeat fences";
    }
  }
  locks->raw.text({"SET", "p:fence:p:k", "0"});
  EXPECT_EQ(locks->acquire(id, "k")->fence.value(), 1U);
}

TEST_F(RedisScripts, AnIdThatHoldsAnotherKeyIsInvalidAndHoldsOnlyThat) {
  ASSERT_TRUE(locks->acquire(id, "a"));
  const auto result = locks->try_acquire(id, "b");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(result.error().key(), "b");
  EXPECT_FALSE(exists("p:b"));
  EXPECT_EQ(get(locks->index_key(id)), "p:a");
}

TEST_F(RedisScripts, AnIndexThatLeadsNowhereDoesNotStandInTheWay) {
  locks->raw.text({"SET", locks->index_key(id), "p:gone"});
  EXPECT_TRUE(locks->acquire(id, "a"));
  EXPECT_EQ(get(locks->index_key(id)), "p:a");
  ASSERT_TRUE(locks->acquire(other, "theirs"));
  locks->raw.text({"SET", locks->index_key(id), "p:theirs"});
  EXPECT_TRUE(locks->acquire(id, "b"));
  EXPECT_EQ(get(locks->index_key(id)), "p:b");
}

TEST_F(RedisScripts, TheHighestFenceIsGrantedAndAfterItNothing) {
  locks->raw.text({"SET", "p:fence:p:k", std::to_string(Fence::max_issued - 1)});
  const auto granted = locks->acquire(id, "k");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->fence.value(), Fence::max_issued);
  ASSERT_FALSE(locks->release(id, "k"));
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto result = locks->try_acquire(id, "k");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::Internal);
    EXPECT_FALSE(exists("p:k"));
    EXPECT_FALSE(exists(locks->index_key(id)));
  }
  EXPECT_GT(locks->raw.integer({"GET", "p:fence:p:k"}), static_cast<std::int64_t>(Fence::max_issued));
}

TEST_F(RedisScripts, ACounterAtItsEndDoesNotWrapAround) {
  const std::string last = "9223372036854775807";
  locks->raw.text({"SET", "p:fence:p:k", last});
  EXPECT_EQ(locks->try_acquire(id, "k").error().code(), ErrorCode::Internal);
  EXPECT_EQ(get("p:fence:p:k"), last);
  EXPECT_EQ(locks->raw.integer({"DBSIZE"}), 1);
}

TEST_F(RedisScripts, ACounterThatIsNoNumberIsInternalAndNothingIsHeld) {
  locks->raw.text({"SET", "p:fence:p:k", "lots"});
  EXPECT_EQ(locks->try_acquire(id, "k").error().code(), ErrorCode::Internal);
  EXPECT_EQ(locks->raw.integer({"DBSIZE"}), 1);
}

TEST_F(RedisScripts, ReleaseDeletesRecordAndIndexAndKeepsTheCounter) {
  for (const auto& by_key : {std::optional<std::string>("k"), std::optional<std::string>()}) {
    ASSERT_TRUE(locks->acquire(id, "k"));
    EXPECT_FALSE(locks->release(id, by_key));
    EXPECT_TRUE(exists("p:fence:p:k"));
    EXPECT_TRUE(exists("p:fence:p:")) << "the authority";
    EXPECT_EQ(locks->raw.integer({"DBSIZE"}), 2);
    EXPECT_EQ(locks->release(id, by_key), Absence::not_found);
  }
}

TEST_F(RedisScripts, OnlyTheOwnerReleasesAndExtends) {
  ASSERT_TRUE(locks->acquire(id, "k"));
  EXPECT_EQ(locks->release(other, "k"), Absence::other_owner);
  EXPECT_EQ(locks->release(other), Absence::not_found);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(other, "k")), Absence::other_owner);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(other)), Absence::not_found);
  // An index that was left over leads to somebody else's lock.
  locks->raw.text({"SET", locks->index_key(other), "p:k"});
  EXPECT_EQ(locks->release(other), Absence::other_owner);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(other)), Absence::other_owner);
  EXPECT_FALSE(*locks->try_lookup(other));
  EXPECT_EQ((*locks->try_lookup("k"))->id, id);
}

TEST_F(RedisScripts, WithAKeyTheIdIsLookedForThereOnly) {
  ASSERT_TRUE(locks->acquire(id, "held"));
  EXPECT_EQ(locks->release(id, "free"), Absence::not_found);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(id, "free")), Absence::not_found);
  EXPECT_EQ((*locks->try_lookup(id))->key.str(), "held");
  // A lost index is not needed.
  locks->raw.text({"DEL", locks->index_key(id)});
  EXPECT_TRUE(std::holds_alternative<Extended>(*locks->try_extend(id, "held")));
  EXPECT_EQ(get(locks->index_key(id)), "p:held");
  locks->raw.text({"DEL", locks->index_key(id)});
  EXPECT_FALSE(locks->release(id, "held"));
}

TEST_F(RedisScripts, ReleaseIsAnnouncedOnAChannelThatNamesTheDatabase) {
  auto where = server->unix_socket();
  where.db = 3;
  RedisLocks third(where, "p");
  auto listener = server->raw();
  listener.send({"SUBSCRIBE", third.layout.channel("p:k")});
  static_cast<void>(listener.receive());
  EXPECT_EQ(third.layout.channel("p:k"), "p:wake:3:p:k");
  ASSERT_TRUE(third.acquire(id, "k"));
  ASSERT_FALSE(third.release(id));
  const auto message = listener.receive();
  const auto parts = redis::elements_of(*message);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(redis::text_of(*parts[0]), "message");
  EXPECT_EQ(redis::text_of(*parts[1]), "p:wake:3:p:k");
  EXPECT_EQ(redis::text_of(*parts[2]), "1");
}

TEST_F(RedisScripts, AReleaseThatMayNotBeAnnouncedIsDoneAllTheSame) {
  for (const std::string rights : {"+@all resetchannels", "+@all -publish"}) {
    locks->raw.text({"ACL", "SETUSER", "quiet", "reset", "on", ">secret", "~p:*"});
    std::istringstream words(rights);
    for (std::string word; words >> word;) locks->raw.text({"ACL", "SETUSER", "quiet", word});
    auto where = server->unix_socket();
    where.user = "quiet";
    where.password = "secret";
    RedisLocks quiet(where, "p");
    ASSERT_TRUE(quiet.acquire(id, "k"));
    EXPECT_FALSE(quiet.release(id, "k"));
    EXPECT_FALSE(exists("p:k"));
  }
}

TEST_F(RedisScripts, ExtendMovesTheEndOfBothKeysAndNothingElse) {
  const auto granted = locks->acquire(id, "k", 60s);
  ASSERT_TRUE(granted);
  for (const auto length : {120'000ms, 5'000ms}) {
    for (const auto& by_key : {std::optional<std::string>("k"), std::optional<std::string>()}) {
      auto before = json::parse(get("p:k"));
      const auto outcome = locks->try_extend(id, by_key, length).value_or_throw();
      const auto expires_at = to_ms(std::get<Extended>(outcome).expires_at);
      EXPECT_EQ(ends_at("p:k"), expires_at - 1);
      EXPECT_EQ(ends_at(locks->index_key(id)), expires_at - 1);
      before["expiresAtMs"] = expires_at;
      EXPECT_EQ(json::parse(get("p:k")), before);
    }
  }
  EXPECT_EQ(locks->acquire(id, "k")->fence, granted->fence);
}

TEST_F(RedisScripts, AtItsExpiryALockIsGone) {
  const auto granted = locks->acquire(id, "k", 30ms);
  ASSERT_TRUE(granted);
  std::this_thread::sleep_for(40ms);
  EXPECT_FALSE(*locks->try_is_locked("k"));
  EXPECT_FALSE(*locks->try_lookup("k"));
  EXPECT_FALSE(*locks->try_lookup(id));
  EXPECT_EQ(locks->release(id), Absence::not_found);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(id, "k")), Absence::not_found);
  const auto next = locks->acquire(other, "k");
  ASSERT_TRUE(next);
  EXPECT_GT(next->fence, granted->fence);
}

TEST_F(RedisScripts, ATombstoneRefusesADelayedAcquire) {
  for (const auto& by_key : {std::optional<std::string>("k"), std::optional<std::string>()}) {
    const auto late = LockId::generate();
    // Released before its acquire comes: nothing is there to release, yet it is remembered.
    EXPECT_EQ(locks->release(late, by_key, Release::for_good), Absence::not_found);
    const auto result = locks->try_acquire(late, "k");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::Internal);
    EXPECT_FALSE(result.error().transient());
    EXPECT_FALSE(*locks->try_is_locked("k"));
    EXPECT_EQ(locks->release(late, by_key), Absence::not_found);
    EXPECT_FALSE(*locks->try_lookup(late));
  }
  EXPECT_TRUE(locks->acquire(other, "k"));
}

TEST_F(RedisScripts, ATombstoneIsLeftWhereTheLockWasFoundTooAndGoesByItself) {
  ASSERT_TRUE(locks->acquire(id, "k"));
  EXPECT_FALSE(locks->release(id, "k", Release::for_good));
  EXPECT_FALSE(*locks->try_is_locked("k"));
  EXPECT_FALSE(locks->try_acquire(id, "k"));
  const auto left = locks->raw.integer({"PTTL", locks->index_key(id)});
  EXPECT_GT(left, 50'000);
  EXPECT_LE(left, redis::request_may_be_late.count());
  locks->raw.text({"DEL", locks->index_key(id)});  // as its expiry will
  EXPECT_TRUE(locks->acquire(id, "k"));
}

TEST_F(RedisScripts, ATombstoneDoesNotReplaceTheIndexOfAnotherLockThatTheIdHolds) {
  ASSERT_TRUE(locks->acquire(id, "held"));
  EXPECT_EQ(locks->release(id, "free", Release::for_good), Absence::not_found);
  EXPECT_EQ((*locks->try_lookup(id))->key.str(), "held");
  EXPECT_FALSE(locks->release(id));
}

TEST_F(RedisScripts, AnotherOwnersLockIsNeitherReleasedForGoodNorForgotten) {
  ASSERT_TRUE(locks->acquire(other, "k"));
  EXPECT_EQ(locks->release(id, "k", Release::for_good), Absence::other_owner);
  EXPECT_EQ((*locks->try_lookup("k"))->id, other);
  ASSERT_FALSE(locks->release(other, "k"));
  EXPECT_FALSE(locks->try_acquire(id, "k"));  // the late one
}

TEST_F(RedisScripts, ATombstoneReplacesAnIndexThatLeadsToAnotherOwnersLock) {
  ASSERT_TRUE(locks->acquire(other, "k"));
  locks->raw.text({"SET", locks->index_key(id), "p:k"});
  EXPECT_EQ(locks->release(id, std::nullopt, Release::for_good), Absence::other_owner);
  EXPECT_EQ(get(locks->index_key(id)), "");
  EXPECT_EQ((*locks->try_lookup("k"))->id, other);
}

TEST_F(RedisScripts, ATombstoneLeadsNobodyToAKeyOutsideThePrefix) {
  locks->raw.text({"ACL", "SETUSER", "narrow", "on", ">secret", "~p:*", "&*", "+@all"});
  auto where = server->unix_socket();
  where.user = "narrow";
  where.password = "secret";
  RedisLocks narrow(where, "p");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(narrow.release(id, std::nullopt, Release::for_good), Absence::not_found);
  }
  EXPECT_EQ(narrow.release(id), Absence::not_found);
  EXPECT_EQ(std::get<Absence>(*narrow.try_extend(id)), Absence::not_found);
  EXPECT_FALSE(*narrow.try_lookup(id));
  EXPECT_EQ(narrow.try_acquire(id, "k").error().code(), ErrorCode::Internal);
}

TEST_F(RedisScripts, AReleaseForGoodIsAnnounced) {
  auto listener = server->raw();
  listener.send({"SUBSCRIBE", locks->layout.channel("p:k")});
  static_cast<void>(listener.receive());
  ASSERT_TRUE(locks->acquire(id, "k"));
  ASSERT_FALSE(locks->release(id, "k", Release::for_good));
  const auto message = listener.receive();
  EXPECT_EQ(redis::text_of(*redis::elements_of(*message)[1]), "p:wake:0:p:k");
}

TEST_F(RedisScripts, AnyPrefixWorksEvenNone) {
  for (const std::string& prefix : {std::string(), std::string("a:b"), std::string(900, 'x')}) {
    RedisLocks mine(server->unix_socket(), prefix);
    for (const std::string& name : {std::string("released"), std::string("k"), std::string(512, 'y')}) {
      const auto holder = LockId::generate();
      const auto first = mine.acquire(holder, name);
      ASSERT_TRUE(first);
      EXPECT_FALSE(mine.acquire(other, name));
      EXPECT_EQ((*mine.try_lookup(holder))->key.str(), name);
      EXPECT_TRUE(std::holds_alternative<Extended>(*mine.try_extend(holder)));
      EXPECT_FALSE(mine.release(holder, std::nullopt, Release::for_good));
      EXPECT_FALSE(mine.try_acquire(holder, name));
      const auto second = mine.acquire(other, name);
      ASSERT_TRUE(second);
      EXPECT_GT(second->fence, first->fence);
      EXPECT_FALSE(mine.release(other, name));
    }
  }
}

}  // namespace
}  // namespace holdfast::test
