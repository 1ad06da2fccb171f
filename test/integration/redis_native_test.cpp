#include <gtest/gtest.h>

#include <map>

#include "embedded/scripts.hpp"
#include "engine/redis/native_state.hpp"
#include "support/calls.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using namespace std::string_literals;
using redis::NativeState;
using redis::Release;

constexpr std::int64_t day = 86'400'000;

/// The scripts of the native layout on a real server.
class RedisNative : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    locks.emplace(server->unix_socket(), "p", RedisLayout::native);
  }

  RedisOptions options() const {
    auto where = server->unix_socket();
    where.lock_prefix = where.task_prefix = "p";
    where.layout = RedisLayout::native;
    return where;
  }
  std::string state(const std::string& name = "p:k") { return locks->raw.text({"HGET", name, "s"}); }
  std::int64_t fields(const std::string& name = "p:k") { return locks->raw.integer({"HLEN", name}); }
  std::int64_t ends_at(const std::string& name = "p:k") { return locks->raw.integer({"PEXPIRETIME", name}); }
  bool knows(const LockId& of) { return locks->raw.integer({"HEXISTS", "p:k", std::string(of.str())}) == 1; }
  void count_from(std::uint64_t counter) {
    std::string bytes(NativeState::idle_size, '\0');
    for (std::size_t i = 0; i < 7; ++i) bytes[7 - i] = static_cast<char>(counter >> (8 * i) & 0xFFU);
    locks->raw.text({"HSET", "p:k", "s", bytes});
  }

  std::optional<RedisServer> server;
  std::optional<RedisLocks> locks;
  const LockId id = LockId::generate();
  const LockId other = LockId::generate();
};

TEST_F(RedisNative, ALockIsOneSmallHashWithoutAnExpiry) {
  const auto granted = locks->acquire(id, "k", 60s);
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->fence.value(), 1U);
  EXPECT_EQ(locks->raw.integer({"DBSIZE"}), 1);
  EXPECT_EQ(fields(), 1);
  EXPECT_EQ(ends_at(), -1);
  EXPECT_EQ(locks->raw.text({"OBJECT", "ENCODING", "p:k"}), "listpack");
  const auto stored = state();
  ASSERT_EQ(stored.size(), NativeState::held_size);
  const auto record = redis::native_record(stored, "p:k");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->key.str(), "k");
  EXPECT_EQ(record->id, id);
  EXPECT_EQ(record->fence, granted->fence);
  EXPECT_EQ(record->expires_at, granted->expires_at);
  EXPECT_EQ(to_ms(record->acquired_at), to_ms(granted->expires_at) - 60'000);
  EXPECT_EQ(record->authority, granted->authority);
  EXPECT_EQ(granted->authority.size(), 16U);
}

TEST_F(RedisNative, ReleaseShrinksItToItsCounterWhichCostsAtMostTwiceADocumentedOne) {
  RedisLocks documented(server->unix_socket(), "p");
  ASSERT_TRUE(documented.acquire(other, "resource:42"));
  ASSERT_TRUE(locks->acquire(id, "resource:43"));
  const auto held = state("p:resource:43");
  ASSERT_FALSE(locks->release(id, "resource:43"));
  EXPECT_EQ(state("p:resource:43"), held.substr(0, NativeState::idle_size));
  EXPECT_EQ(fields("p:resource:43"), 1);
  // Each in a database of its own, as many of both: MEMORY USAGE does not count everywhere what the key
  // itself costs.
  const auto bytes_of_many = [&](const std::string& name, int database) {
    const auto used = [&] {
      const auto memory = locks->raw.text({"INFO", "memory"});
      const std::string field = "\nused_memory:";
      return std::stoll(memory.substr(memory.find(field) + field.size()));
    };
    const auto before = used();
    locks->raw.text(
        {"EVAL",
         "for i = 1, 20000 do redis.call('COPY', KEYS[1], KEYS[1] .. i, 'DB', ARGV[1]) end return 'OK'", "1",
         name, std::to_string(database)});
    return used() - before;
  };
  const auto documented_one = bytes_of_many("p:fence:p:resource:42", 1);
  EXPECT_GT(documented_one, 20000 * 50);
  EXPECT_LE(bytes_of_many("p:resource:43", 2), 2 * documented_one);
  EXPECT_EQ(locks->release(id, "resource:43"), Absence::not_found);
  EXPECT_FALSE(*locks->try_is_locked("resource:43"));
}

TEST_F(RedisNative, ADocumentedProcessFailsInsteadOfBecomingASecondHolder) {
  RedisLocks documented(server->unix_socket(), "p");
  for (const bool held : {true, false}) {
    if (held) {
      ASSERT_TRUE(locks->acquire(id, "k"));
    } else {
      ASSERT_FALSE(locks->release(id, "k"));
    }
    const auto before = state();
    const auto result = documented.try_acquire(other, "k");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
    EXPECT_NE(result.error().message().find("layout=native"), std::string::npos) << result.error().message();
    EXPECT_EQ(state(), before);
    EXPECT_EQ(locks->raw.integer({"DBSIZE"}), 1);
  }
}

TEST_F(RedisNative, ADocumentedLockIsLeftAloneAndExplained) {
  RedisLocks documented(server->unix_socket(), "p");
  ASSERT_TRUE(documented.acquire(other, "k"));
  const auto before = locks->raw.text({"GET", "p:k"});
  for (const auto& error :
       {locks->try_acquire(id, "k").error(), locks->try_release(id, "k").error(),
        locks->try_release(id, "k", Release::for_good).error(), locks->try_extend(id, "k").error(),
        locks->try_lookup("k").error(), locks->try_is_locked("k").error()}) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_NE(error.message().find("layout=documented"), std::string::npos) << error.message();
  }
  EXPECT_EQ(locks->raw.text({"GET", "p:k"}), before);
}

TEST_F(RedisNative, ALockIsRefusedUntilTheMillisecondOfItsExpiryAndFreeInIt) {
  const std::int64_t now = 1'800'000'000'000;
  locks->freeze(now);
  const auto granted = locks->acquire(id, "k", 500ms);
  ASSERT_TRUE(granted);
  ASSERT_EQ(to_ms(granted->expires_at), now + 500);
  locks->freeze(now + 499);
  const auto refused = locks->try_acquire(other, "k").value_or_throw();
  EXPECT_EQ(std::get<Refused>(refused).free_in, 1ms);
  EXPECT_TRUE(*locks->try_is_locked("k"));
  EXPECT_EQ(locks->page("", 10).locks.size(), 1U);
  const auto first = locks->acquire(id, "k");
  EXPECT_EQ(first->expires_at, granted->expires_at) << "the first answer again";
  locks->freeze(now + 500);
  EXPECT_FALSE(*locks->try_is_locked("k"));
  EXPECT_FALSE(*locks->try_lookup("k"));
  EXPECT_TRUE(locks->page("", 10).locks.empty());
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(id, "k")), Absence::expired);
  EXPECT_EQ(state().size(), NativeState::idle_size);
  const auto next = locks->acquire(other, "k");
  ASSERT_TRUE(next);
  EXPECT_EQ(next->fence.value(), 2U);
  EXPECT_EQ(next->authority, granted->authority);
}

TEST_F(RedisNative, ARefusalChangesNothing) {
  ASSERT_TRUE(locks->acquire(id, "k"));
  const auto before = state();
  EXPECT_FALSE(locks->acquire(other, "k"));
  EXPECT_EQ(locks->release(other, "k"), Absence::other_owner);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(other, "k")), Absence::other_owner);
  EXPECT_EQ(state(), before);
  EXPECT_EQ(fields(), 1);
}

TEST_F(RedisNative, AnExpiredLockOfAnotherIsNotReleasedByItsKey) {
  locks->freeze(1'800'000'000'000);
  ASSERT_TRUE(locks->acquire(other, "k", 10ms));
  locks->freeze(1'800'000'000'010);
  const auto before = state();
  EXPECT_EQ(locks->release(id, "k"), Absence::not_found);
  EXPECT_EQ(state(), before);
  EXPECT_EQ(locks->release(other, "k"), Absence::expired);
}

TEST_F(RedisNative, AProvenReleaseFreesItsOwnLockOnlyAndAnswersAsAPlainOne) {
  EXPECT_EQ(locks->release(id, "k", Release::proven), Absence::not_found);
  ASSERT_TRUE(locks->acquire(other, "k"));
  const auto before = state();
  EXPECT_EQ(locks->release(id, "k", Release::proven), Absence::other_owner);
  EXPECT_EQ(state(), before);
  EXPECT_FALSE(locks->release(other, "k", Release::proven));
  EXPECT_EQ(state(), before.substr(0, NativeState::idle_size));
  EXPECT_EQ(locks->release(other, "k", Release::proven), Absence::not_found);
  // It does not look at the clock: no other id was granted the lock since.
  ASSERT_TRUE(locks->acquire(id, "k", 1ms));
  while (*locks->try_is_locked("k")) continue;
  EXPECT_FALSE(locks->release(id, "k", Release::proven));
}

TEST_F(RedisNative, AReleaseThatReliedOnAProofIsNotOkIfTheProofEndedMeanwhile) {
  const auto backend = make_redis_lock_backend(options()).value_or_throw();
  const auto release_with_proof = [&](const LockId& holder, const Granted& granted, milliseconds lasts) {
    return try_release(*backend, {.lock = {.id = holder, .key = key("k")},
                                  .proof = HolderProof{.fence = granted.fence,
                                                       .authority = granted.authority,
                                                       .until = BootClock::now() + lasts}})
        .value_or_throw();
  };
  const auto granted = acquire(*backend, id, "k");
  EXPECT_TRUE(std::holds_alternative<Released>(
      release_with_proof(id, *granted, 60s)));  // and the server knows the script
  // The server keeps the request until the proof has ended. On a slow machine the request may be sent only
  // after that, and is then a plain one.
  for (auto lasts = 50ms;; lasts *= 2) {
    const auto holder = LockId::generate();
    const auto next = acquire(*backend, holder, "k");
    ASSERT_TRUE(next);
    locks->raw.text({"CLIENT", "PAUSE", std::to_string(3 * lasts.count()), "ALL"});
    const auto outcome = release_with_proof(holder, *next, lasts);
    ASSERT_FALSE(is_locked(*backend, "k")) << "it is free in any case";
    if (const auto* absence = std::get_if<Absence>(&outcome)) {
      EXPECT_EQ(*absence, Absence::expired);
      break;
    }
    ASSERT_LT(lasts, 1s) << "released, though the proof ended before the answer";
  }
}

TEST_F(RedisNative, ExtendMovesTheExpiryAndNothingElse) {
  const auto granted = locks->acquire(id, "k", 60s);
  const auto before = redis::native_record(state(), "p:k");
  const auto outcome = locks->try_extend(id, "k", 5s).value_or_throw();
  const auto after = redis::native_record(state(), "p:k");
  ASSERT_TRUE(before && after);
  EXPECT_LT(after->expires_at, before->expires_at);
  EXPECT_EQ(after->expires_at, std::get<Extended>(outcome).expires_at);
  EXPECT_EQ(after->acquired_at, before->acquired_at);
  EXPECT_EQ(after->fence, granted->fence);
  EXPECT_EQ(after->id, id);
  EXPECT_EQ(fields(), 1);
}

TEST_F(RedisNative, TheFenceIsAboveItsFloorAndAboveTheCounter) {
  const auto fence_with = [&](std::uint64_t floor) {
    const auto holder = LockId::generate();
    const auto outcome = locks->try_acquire(holder, "k", 60s, {}, floor).value_or_throw();
    EXPECT_FALSE(locks->release(holder, "k"));
    return std::get<Granted>(outcome).fence.value();
  };
  EXPECT_EQ(fence_with(0), 1U);
  EXPECT_EQ(fence_with(3'000'000'000), 3'000'000'001U);
  EXPECT_EQ(fence_with(1'000'000'000), 3'000'000'002U) << "an older epoch";
  EXPECT_EQ(fence_with(0), 3'000'000'003U);
}

TEST_F(RedisNative, TheHighestFenceIsGrantedAndAfterItNothing) {
  count_from(Fence::max_issued - 1);
  ASSERT_EQ(locks->acquire(id, "k")->fence.value(), Fence::max_issued);
  ASSERT_FALSE(locks->release(id, "k"));
  const auto before = state();
  EXPECT_EQ(locks->try_acquire(other, "k").error().code(), ErrorCode::Internal);
  EXPECT_EQ(locks->try_acquire(other, "new", 60s, {}, Fence::max_issued).error().code(), ErrorCode::Internal);
  EXPECT_EQ(state(), before);
  EXPECT_EQ(locks->raw.integer({"EXISTS", "p:new"}), 0);
}

TEST_F(RedisNative, AHashThatIsNoLockIsLeftAlone) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"name", "value"}, {"s", ""}, {"s", "text"}, {"s", std::string(51, 'x')}}) {
    locks->raw.text({"DEL", "p:k"});
    locks->raw.text({"HSET", "p:k", field, value});
    for (const auto& error :
         {locks->try_acquire(id, "k").error(), locks->try_release(id, "k").error(),
          locks->try_release(id, "k", Release::for_good).error(), locks->try_extend(id, "k").error(),
          locks->try_lookup("k").error(), locks->try_is_locked("k").error()}) {
      EXPECT_EQ(error.code(), ErrorCode::Internal) << field;
      EXPECT_NE(error.message().find("not a valid lock record"), std::string::npos);
    }
    EXPECT_EQ(locks->cleanup("k"), -3);
    EXPECT_TRUE(locks->page("", 10).locks.empty());
    EXPECT_EQ(fields(), 1);
    EXPECT_EQ(locks->raw.text({"HGET", "p:k", field}), value);
  }
}

TEST_F(RedisNative, AReleasedIdIsNotGrantedLate) {
  EXPECT_EQ(locks->release(id, "k", Release::for_good), Absence::not_found);
  EXPECT_GT(ends_at(), 0) << "no fence was granted: the key goes with the tombstone";
  const auto late = locks->try_acquire(id, "k");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().effect(), Effect::id_is_spent);
  EXPECT_FALSE(*locks->try_is_locked("k"));
  ASSERT_TRUE(locks->acquire(other, "k"));
  EXPECT_EQ(ends_at(), -1) << "a lock that is held must not expire with a tombstone";
  EXPECT_FALSE(locks->try_acquire(id, "k").value_or_throw().index() == 0) << "held by another";
  EXPECT_EQ(locks->release(id, "k", Release::for_good), Absence::other_owner);
  ASSERT_FALSE(locks->release(other, "k", Release::for_good));
  EXPECT_FALSE(locks->try_acquire(other, "k"));
  EXPECT_FALSE(locks->try_acquire(id, "k"));
  EXPECT_EQ(ends_at(), -1);
}

TEST_F(RedisNative, ATombstoneOfAKeyThatWasNeverLockedPostponesTheEndOfAnEarlierOne) {
  ASSERT_EQ(locks->release(id, "k", Release::for_good), Absence::not_found);
  locks->raw.integer({"PEXPIRE", "p:k", "1000"});
  ASSERT_EQ(locks->release(other, "k", Release::for_good), Absence::not_found);
  EXPECT_GT(locks->raw.integer({"PTTL", "p:k"}), 50'000);
}

TEST_F(RedisNative, TombstonesAreSweptAMinuteLaterByTheNextGrant) {
  const std::int64_t now = 1'800'000'000'000;
  locks->freeze(now);
  ASSERT_TRUE(locks->acquire(id, "k"));
  ASSERT_FALSE(locks->release(id, "k", Release::for_good));
  EXPECT_EQ(fields(), 3);
  locks->freeze(now + 59'999);
  ASSERT_TRUE(locks->acquire(other, "k", 1ms));
  EXPECT_TRUE(knows(id));
  locks->freeze(now + 61'000);
  ASSERT_TRUE(locks->acquire(LockId::generate(), "k", 1ms));
  EXPECT_EQ(fields(), 1);
  EXPECT_EQ(state()[0], '\0') << "the next grant reads one field again";
}

TEST_F(RedisNative, CleanupShrinksWhatExpiredAndSweeps) {
  const std::int64_t now = 1'800'000'000'000;
  locks->freeze(now);
  EXPECT_EQ(locks->cleanup("k"), 0);
  ASSERT_TRUE(locks->acquire(other, "k", 1ms));
  ASSERT_EQ(locks->release(id, "k", Release::for_good), Absence::other_owner);
  locks->freeze(now + 2001);
  EXPECT_EQ(locks->cleanup("k"), 0);
  locks->freeze(now + 2002);
  EXPECT_EQ(locks->cleanup("k"), 1);
  EXPECT_EQ(state().size(), NativeState::idle_size);
  EXPECT_TRUE(knows(id));
  locks->freeze(now + 61'000);
  EXPECT_EQ(locks->cleanup("k"), 0);
  EXPECT_EQ(fields(), 1);
  EXPECT_EQ(locks->acquire(id, "k")->fence.value(), 2U);
}

TEST_F(RedisNative, ABreakLeavesAMarkForTheRestOfTheLeaseThatNoReleaseReplaces) {
  const std::int64_t now = 1'800'000'000'000;
  locks->freeze(now);
  const auto granted = locks->acquire(id, "k", 300s);
  EXPECT_FALSE(locks->evidence(id, "k")->broken);
  ASSERT_FALSE(locks->release(id, "k", Release::by_force));
  EXPECT_EQ(locks->release(id, "k", Release::for_good), Absence::not_found);
  const auto evidence = locks->evidence(id, "k").value_or_throw();
  EXPECT_TRUE(evidence.broken);
  EXPECT_EQ(evidence.authority, granted->authority);
  EXPECT_EQ(evidence.counter, 1U);
  EXPECT_FALSE(locks->try_acquire(id, "k"));
  locks->freeze(now + 359'000);
  ASSERT_TRUE(locks->acquire(other, "k", 1ms));
  EXPECT_TRUE(locks->evidence(id, "k")->broken);
  EXPECT_FALSE(locks->evidence(other, "k")->broken);
  locks->freeze(now + 480'000);
  ASSERT_TRUE(locks->acquire(LockId::generate(), "k", 1ms));
  EXPECT_FALSE(knows(id));
}

TEST_F(RedisNative, TheEvidenceOfALostKeyIsAnotherAuthorityOrALowerCounter) {
  const auto granted = locks->acquire(id, "k");
  locks->raw.text({"DEL", "p:k"});
  EXPECT_EQ(locks->evidence(id, "k")->authority, "");
  EXPECT_EQ(locks->evidence(id, "k")->counter, 0U);
  const auto next = locks->acquire(other, "k");
  EXPECT_EQ(next->fence.value(), 1U);
  EXPECT_NE(next->authority, granted->authority);
  EXPECT_EQ(locks->evidence(id, "k")->authority, next->authority);
}

TEST_F(RedisNative, ACounterThatEndsDoesSoADayAfterTaskAndLeaseAndContinuesAboveAllItGranted) {
  const auto now = locks->raw.now_ms();
  const auto seconds = static_cast<std::uint64_t>(now / 1000 - 1'735'689'600);
  const CounterLifetime until{.until = from_ms(now + 1000)};
  const auto first = locks->acquire(id, "k", 60s, until);
  ASSERT_TRUE(first);
  EXPECT_GE(first->fence.value(), seconds);
  EXPECT_NEAR(static_cast<double>(ends_at()), static_cast<double>(now + 60'000 + day), 2000);
  // An extend that outlasts it takes the end along; a shorter one leaves it.
  ASSERT_TRUE(std::holds_alternative<Extended>(*locks->try_extend(id, "k", 600s)));
  const auto extended = ends_at();
  EXPECT_NEAR(static_cast<double>(extended), static_cast<double>(now + 600'000 + day), 2000);
  ASSERT_TRUE(std::holds_alternative<Extended>(*locks->try_extend(id, "k", 1s)));
  EXPECT_EQ(ends_at(), extended);
  ASSERT_FALSE(locks->release(id, "k"));
  EXPECT_EQ(ends_at(), extended);
  // A plain acquire neither removes the end nor lets the lock expire with it.
  const auto plain = locks->acquire(other, "k", 6000s);
  EXPECT_EQ(plain->fence.value(), first->fence.value() + 1);
  EXPECT_NEAR(static_cast<double>(ends_at()), static_cast<double>(now + 6'000'000 + day), 2000);
  ASSERT_FALSE(locks->release(other, "k"));
  const auto forever = LockId::generate();
  ASSERT_TRUE(locks->acquire(forever, "k", 1s, CounterLifetime{}));
  EXPECT_EQ(ends_at(), -1);
  EXPECT_EQ(fields(), 1);
}

TEST_F(RedisNative, ACounterThatEndedContinuesFromTheClockAboveItsFloor) {
  const auto now = locks->raw.now_ms();
  const auto seconds = static_cast<std::uint64_t>(now / 1000 - 1'735'689'600);
  const std::uint64_t floor = 7'000'000'000;
  const CounterLifetime until{.until = from_ms(now)};
  const auto outcome = locks->try_acquire(id, "k", 1s, until, floor).value_or_throw();
  const auto fence = std::get<Granted>(outcome).fence.value();
  EXPECT_GE(fence, floor + seconds);
  EXPECT_LT(fence, floor + seconds + 60);
  EXPECT_LT(ends_at(), now + 2 * day) << "the floor does not postpone the end";
}

TEST_F(RedisNative, OnAServerWithoutRoomALockIsExtendedAndReleasedButNotAcquired) {
  ASSERT_TRUE(locks->acquire(id, "k"));
  locks->raw.text({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(locks->try_acquire(other, "free").error().code(), ErrorCode::RateLimited);
  EXPECT_TRUE(std::holds_alternative<Extended>(*locks->try_extend(id, "k", 90s)));
  EXPECT_FALSE(locks->release(id, "k"));
  EXPECT_EQ(state().size(), NativeState::idle_size);
  EXPECT_EQ(fields(), 1);
}

TEST_F(RedisNative, ListsItsOwnLocksUnderAnyPrefixAndName) {
  for (const std::string& prefix : {std::string("p"), std::string("p:q"), std::string(900, 'x')}) {
    RedisLocks mine(server->unix_socket(), prefix, RedisLayout::native);
    std::map<std::string, LockId> expected;
    for (const std::string& name : {"a"s, "a\0b"s, "\xE9\x8D\xB5"s, std::string(512, 'y')}) {
      const auto holder = LockId::generate();
      ASSERT_TRUE(mine.acquire(holder, name));
      expected.emplace(name, holder);
      EXPECT_EQ((*mine.try_lookup(name))->key.str(), name);
      EXPECT_FALSE(mine.acquire(other, name));
    }
    ASSERT_TRUE(mine.acquire(other, "released"));
    ASSERT_FALSE(mine.release(other, "released"));
    std::map<std::string, LockId> found;
    for (const auto& lock : mine.page("", 100).locks) found.emplace(lock.key.str(), lock.id);
    EXPECT_EQ(found.size(), expected.size());
    for (const auto& [name, holder] : expected) EXPECT_EQ(found[name], holder);
  }
}

TEST_F(RedisNative, AReleaseIsPublished) {
  auto listener = server->raw();
  listener.send({"SUBSCRIBE", "p:wake:0:p:k"});
  static_cast<void>(listener.receive());
  for (const auto how : {Release::plain, Release::proven, Release::for_good, Release::by_force}) {
    const auto holder = LockId::generate();
    ASSERT_TRUE(locks->acquire(holder, "k"));
    ASSERT_FALSE(locks->release(holder, "k", how));
    EXPECT_EQ(redis::text_of(*redis::elements_of(*listener.receive())[1]), "p:wake:0:p:k");
  }
}

TEST_F(RedisNative, AHintIsWrittenOnlyForLocksThatOutliveTheirProcess) {
  const auto backend = make_redis_lock_backend(options()).value_or_throw();
  const auto hint = locks->index_key(id);
  const auto acquire_for = [&](Durability durability) {
    AcquireRequest request{.id = id, .key = key("k"), .ttl = ttl(60s), .durability = durability};
    return std::holds_alternative<Granted>(try_acquire(*backend, request).value_or_throw());
  };
  ASSERT_TRUE(acquire_for(Durability::process));
  EXPECT_EQ(locks->raw.integer({"EXISTS", hint}), 0);
  EXPECT_FALSE(lookup(*backend, id));
  // As a guard that is detached.
  const ExtendRequest detach{.lock = {.id = id, .key = key("k")}, .ttl = ttl(90s)};
  ASSERT_TRUE(try_extend(*backend, detach));
  EXPECT_EQ(locks->raw.text({"GET", hint}), "p:k");
  EXPECT_GT(locks->raw.integer({"PTTL", hint}), 90'000) << "it outlives its lease";
  EXPECT_EQ(lookup(*backend, id)->key.str(), "k");
  ASSERT_TRUE(std::holds_alternative<Extended>(extend(*backend, id, std::nullopt, 600s)));
  EXPECT_GT(locks->raw.integer({"PTTL", hint}), 600'000);
  EXPECT_FALSE(release(*backend, id));
  EXPECT_FALSE(is_locked(*backend, "k"));
}

/// A hint that is deleted later could be that of the id's next lock.
TEST_F(RedisNative, AReleaseByTheIdAloneIsAnsweredWhenItsHintIsGone) {
  const auto backend = make_redis_lock_backend(options()).value_or_throw();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(acquire(*backend, id, "k"));
    ASSERT_FALSE(release(*backend, id));
    ASSERT_NE(locks->raw.text({"GET", locks->index_key(id)}), "p:k") << i;
  }
}

TEST_F(RedisNative, AHintThatIsOldOrWrongLeadsToNoOtherHoldersLock) {
  const auto backend = make_redis_lock_backend(options()).value_or_throw();
  ASSERT_TRUE(acquire(*backend, other, "k"));
  for (const std::string& wrong : {"p:k"s, "p:nothing"s, "elsewhere"s, ""s, "p:id:AAAAAAAAAAAAAAAAAAAAAA"s}) {
    locks->raw.text({"SET", locks->index_key(id), wrong});
    EXPECT_TRUE(release(*backend, id)) << wrong;
    EXPECT_TRUE(std::holds_alternative<Absence>(extend(*backend, id, std::nullopt, 60s))) << wrong;
    EXPECT_FALSE(lookup(*backend, id)) << wrong;
  }
  EXPECT_EQ(lookup(*backend, "k")->id, other);
  locks->raw.text({"SET", locks->index_key(id), "p:gone"});
  ASSERT_TRUE(acquire(*backend, id, "mine"));
  EXPECT_EQ(lookup(*backend, id)->key.str(), "mine") << "an old hint does not stand in the way";
}

TEST_F(RedisNative, APrefixIsOpenedInOneLayoutOnly) {
  const auto native = options();
  auto documented = options();
  documented.layout = RedisLayout::documented;
  {
    ASSERT_TRUE(make_redis_lock_backend(native));
    const auto tasks = make_redis_storage_backend(native).value_or_throw();
    ASSERT_TRUE(make_redis_storage_backend(documented)) << "reading marks nothing";
    const auto early = make_redis_storage_backend(documented).value_or_throw();
    create(*tasks, "o:t");
    const auto late_write = call(*early, CreateRecord{.key = record_key("o:u"), .data = record_data("{}")});
    ASSERT_FALSE(late_write) << "it was opened before the prefix was marked";
    EXPECT_EQ(late_write.error().code(), ErrorCode::InvalidArgument);
    ASSERT_TRUE(make_redis_lock_backend(native)) << "again";
    const auto locks_refused = make_redis_lock_backend(documented);
    ASSERT_FALSE(locks_refused);
    EXPECT_EQ(locks_refused.error().code(), ErrorCode::InvalidArgument);
    EXPECT_NE(locks_refused.error().message().find("layout=native"), std::string::npos);
    const auto tasks_refused = make_redis_storage_backend(documented);
    ASSERT_FALSE(tasks_refused);
    EXPECT_EQ(tasks_refused.error().code(), ErrorCode::InvalidArgument);
    EXPECT_NE(tasks_refused.error().message().find("layout=native"), std::string::npos);
  }
  documented.lock_prefix = "q";
  auto late = native;
  late.lock_prefix = "q";
  ASSERT_TRUE(make_redis_lock_backend(documented));
  const auto refused = make_redis_lock_backend(late);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
  EXPECT_NE(refused.error().message().find("layout=documented"), std::string::npos);
}

TEST_F(RedisNative, AGrantHasTheAuthorityOfItsKeyAndTheStoreAnotherThatLasts) {
  const auto backend = make_redis_lock_backend(options()).value_or_throw();
  EXPECT_TRUE(backend->capabilities().authority_per_key);
  const auto store = backend->authority();
  EXPECT_EQ(store.size(), 36U);
  const auto a = acquire(*backend, id, "a");
  const auto b = acquire(*backend, other, "b");
  EXPECT_NE(a->authority, b->authority);
  EXPECT_EQ(lookup(*backend, "a")->authority, a->authority);
  EXPECT_EQ(backend->authority(), store);
  EXPECT_EQ(make_redis_lock_backend(options()).value_or_throw()->authority(), store);
}

TEST_F(RedisNative, ScriptsHaveTheNamesThatTheServerGivesThem) {
  using namespace redis::embedded;
  for (const auto text : {native_open_lua, native_acquire_lua, native_release_lua, native_release_proven_lua,
                          native_release_for_good_lua, native_break_lua, native_release_evidence_lua,
                          native_extend_lua, native_lookup_lua, native_cleanup_lua, native_records_lua}) {
    EXPECT_EQ(locks->raw.text({"SCRIPT", "LOAD", std::string(text)}), redis::Script(text).sha1);
  }
}

}  // namespace
}  // namespace holdfast::test
