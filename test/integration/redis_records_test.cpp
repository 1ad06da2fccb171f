// What the scripts make of records that they did not write, or that lie there past their time.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/calls.hpp"
#include "support/liveness.hpp"
#include "support/redis_locks.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using namespace std::string_literals;

constexpr std::int64_t minute = 60'000;

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class RedisRecords : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    locks.emplace(server->unix_socket(), "p");
  }

  bool exists(const std::string& name) { return locks->raw.integer({"EXISTS", name}) == 1; }
  std::string get(const std::string& name) { return locks->raw.text({"GET", name}); }

  ordered_json record(const LockId& owner, std::string_view name, std::int64_t expires_at) const {
    return {{"lockId", owner.str()},
            {"expiresAtMs", expires_at},
            {"fence", "000000000000007"},
            {"acquiredAtMs", 1'700'000'000'000},
            {"key", name}};
  }
  /// A lock that has no expiry, as after PERSIST.
  void put(const LockId& owner, std::string_view name, std::int64_t expires_at) {
    locks->raw.text({"SET", locks->lock_key(name), record(owner, name, expires_at).dump()});
    locks->raw.text({"SET", locks->index_key(owner), locks->lock_key(name)});
  }
  /// The same in the form that SyncGuard's cjson gives it.
  void put_foreign(const LockId& owner, std::string_view name, std::int64_t expires_at) {
    put(owner, name, expires_at);
    locks->raw.text(
        {"EVAL", "return redis.call('SET', KEYS[1], cjson.encode(cjson.decode(redis.call('GET', KEYS[1]))))",
         "1", locks->lock_key(name)});
  }

  std::optional<RedisServer> server;
  std::optional<RedisLocks> locks;
  const LockId id = LockId::generate();
  const LockId other = LockId::generate();
  // The scripts run at this instant; what they store must not end before the test does.
  const std::int64_t now = wall_ms();
};

TEST_F(RedisRecords, ThePredicateIsTheSameInLuaAndInCpp) {
  locks->freeze(now);
  for (const std::int64_t past :
       {-minute, -1001L, -1000L, -999L, -1L, 0L, 1L, 998L, 999L, 1000L, 1001L, minute}) {
    const auto expires_at = now - past;
    const bool live = is_live(expires_at, now);
    for (const bool foreign : {false, true}) {
      SCOPED_TRACE(std::to_string(past) + (foreign ? " ms past, foreign" : " ms past"));
      const auto restore = [&] { foreign ? put_foreign(id, "k", expires_at) : put(id, "k", expires_at); };
      restore();
      EXPECT_EQ(*locks->try_is_locked("k"), live);
      EXPECT_EQ(locks->try_lookup("k")->has_value(), live);
      EXPECT_EQ(locks->try_lookup(id)->has_value(), live);
      EXPECT_EQ(locks->page("", 10).locks.size(), live ? 1U : 0U);
      EXPECT_EQ(get("p:k").empty(), false) << "reading deleted it";

      EXPECT_EQ(std::holds_alternative<Extended>(*locks->try_extend(id)), live);
      restore();
      EXPECT_EQ(std::holds_alternative<Extended>(*locks->try_extend(id, "k")), live);
      restore();
      EXPECT_EQ(locks->release(id), live ? std::nullopt : std::optional(Absence::expired));
      EXPECT_FALSE(exists("p:k"));
      EXPECT_FALSE(exists(locks->index_key(id)));
      restore();
      EXPECT_EQ(locks->release(id, "k"), live ? std::nullopt : std::optional(Absence::expired));
      restore();
      EXPECT_EQ(locks->acquire(other, "k").has_value(), !live);
      locks->raw.text({"FLUSHALL"});
    }
  }
}

TEST_F(RedisRecords, ARefusalByOnePastItsTimeTellsWhenItStopsCounting) {
  locks->freeze(now);
  for (const auto& [past, left] : {std::pair(-500L, 500L), std::pair(-1L, 1L), std::pair(0L, 1000L),
                                   std::pair(1L, 999L), std::pair(999L, 1L)}) {
    put(id, "k", now - past);
    const auto outcome = locks->try_acquire(other, "k").value_or_throw();
    EXPECT_EQ(std::get<Refused>(outcome).free_in, milliseconds(left)) << past;
  }
}

TEST_F(RedisRecords, TakingOverAnExpiredLockDeletesItsOwnersIndexAndRaisesTheFence) {
  for (const bool foreign : {false, true}) {
    locks->raw.text({"SET", "p:fence:p:k", "7"});
    foreign ? put_foreign(id, "k", now - minute) : put(id, "k", now - minute);
    const auto granted = locks->acquire(other, "k");
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->fence.value(), 8U);
    EXPECT_FALSE(exists(locks->index_key(id)));
    EXPECT_EQ(get(locks->index_key(other)), "p:k");
    EXPECT_EQ(locks->release(id), Absence::not_found);
    EXPECT_EQ((*locks->try_lookup(other))->key.str(), "k");
    ASSERT_FALSE(locks->release(other, "k"));
  }
}

TEST_F(RedisRecords, TakingOverLeavesTheIndexOfAnOwnerThatHoldsAnotherLockByNow) {
  put(id, "old", now - minute);
  ASSERT_TRUE(locks->acquire(id, "new"));
  ASSERT_TRUE(locks->acquire(other, "old"));
  EXPECT_EQ((*locks->try_lookup(id))->key.str(), "new");
  EXPECT_FALSE(locks->release(id));
}

TEST_F(RedisRecords, AnExpiredLockCanBeTakenAgainByItsOwnId) {
  put(id, "k", now - minute);
  const auto granted = locks->acquire(id, "k");
  ASSERT_TRUE(granted);
  EXPECT_GT(to_ms(granted->expires_at), now);
  EXPECT_EQ(get(locks->index_key(id)), "p:k");
}

TEST_F(RedisRecords, AnIdIsFreeForAnotherKeyOnceItsLockIsPastItsTime) {
  put(id, "old", now - minute);
  EXPECT_TRUE(locks->acquire(id, "new"));
  EXPECT_EQ(get(locks->index_key(id)), "p:new");
}

TEST_F(RedisRecords, AnothersLeftoverMetByItsKeyIsNotThere) {
  put(other, "k", now - minute);
  ASSERT_TRUE(locks->acquire(id, "mine"));
  EXPECT_EQ(locks->release(id, "k"), Absence::not_found);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(id, "k")), Absence::not_found);
  EXPECT_EQ((*locks->try_lookup(id))->key.str(), "mine");
}

TEST_F(RedisRecords, WhatIsNoLockRecordIsRefusedAndLeftAlone) {
  const std::string half = record(id, "k", 1'000'000'000'001).dump();  // long expired
  const std::string valid = record(id, "k", now + minute).dump();
  const auto without = [&](const char* field) {
    auto rest = record(id, "k", now + minute);
    rest.erase(field);
    return rest.dump();
  };
  for (const std::string& value : {""s,
                                   "text"s,
                                   "42"s,
                                   "null"s,
                                   "true"s,
                                   "[]"s,
                                   "{}"s,
                                   "\"\""s,
                                   "{\"lockId\":1}"s,
                                   "\0\1\xff"s,
                                   half.substr(0, half.size() - 1),
                                   half.substr(0, 90),
                                   half + "x",
                                   without("lockId"),
                                   without("expiresAtMs"),
                                   without("fence"),
                                   "[" + valid + "]",
                                   std::string(2000, '['),
                                   "p:k"s,
                                   "{\"lockId\":\"x\",\"expiresAtMs\":\"9999999999999\",\"fence\":\"1\"}"s}) {
    SCOPED_TRACE(value);
    locks->raw.text({"SET", "p:k", value});
    locks->raw.text({"SET", locks->index_key(id), "p:k"});
    const auto refused = [](const auto& result) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code(), ErrorCode::Internal);
      EXPECT_NE(result.error().message().find("not a valid lock record"), std::string::npos)
          << result.error().what();
    };
    refused(locks->try_acquire(other, "k"));
    EXPECT_FALSE(exists("p:fence:p:k"));
    refused(locks->try_release(id));
    refused(locks->try_release(id, "k"));
    refused(locks->try_extend(id, "k"));
    // What only its end shows to be no record is never destroyed, but looking at it tells nothing.
    const bool begins_well = value.starts_with("{\"lockId\":\"") && value.size() > 80;
    if (!begins_well) {
      refused(locks->try_is_locked("k"));
      refused(locks->try_lookup("k"));
      refused(locks->try_lookup(id));
    }
    EXPECT_EQ(locks->cleanup("k"), -3);
    EXPECT_TRUE(locks->page("", 10).locks.empty());
    EXPECT_EQ(get("p:k"), value);
  }
}

TEST_F(RedisRecords, AnotherKindOfValueIsInvalidArgumentAndLeftAlone) {
  locks->raw.text({"RPUSH", "p:k", "x"});
  EXPECT_EQ(locks->try_acquire(id, "k").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(locks->try_release(id, "k").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(locks->try_extend(id, "k").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(locks->try_is_locked("k").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(locks->try_lookup("k").error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(locks->raw.text({"LRANGE", "p:k", "0", "-1"}), "x");
  EXPECT_EQ(locks->raw.integer({"DBSIZE"}), 1);
}

TEST_F(RedisRecords, ARecordWhoseFieldsDoNotFitTheirTypesIsInternalToItsReader) {
  const auto fields = record(id, "k", now + minute);
  for (const auto& [field, value] : std::vector<std::pair<std::string, ordered_json>>{
           {"key", ""},
           {"key", 1},
           {"key", nullptr},
           {"acquiredAtMs", "1"},
           {"acquiredAtMs", 1.5},
           {"expiresAtMs", static_cast<double>(now + minute) + 0.5},
           {"fence", "7"},
           {"lockId", "short"}}) {
    auto bad = fields;
    bad[field] = value;
    locks->raw.text({"SET", "p:k", bad.dump()});
    const auto found = locks->try_lookup("k");
    ASSERT_FALSE(found) << bad;
    EXPECT_EQ(found.error().code(), ErrorCode::Internal) << bad;
    EXPECT_EQ(found.error().key(), "k");
  }
}

/// Keys made to look like the rest of a record, and those that JSON writes in more than one way.
std::vector<std::string> hostile_keys() {
  return {"\"",
          "\\",
          "\\\"",
          "{",
          "}",
          "{}",
          "[",
          "},{",
          "a,b",
          ",\"",
          "{\"",
          ":",
          "/",
          "a/b\\/c",
          "\n\r\t\b\f",
          "\x01\x1f\x7f",
          "a\0b"s,
          "\",\"expiresAtMs\":1,\"x\":\"",
          "\"expiresAtMs\":1",
          "{\"expiresAtMs\":1}",
          ",\"expiresAtMs\":1,",
          "\\\",\\\"expiresAtMs\\\":1",
          "{\"lockId\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"expiresAtMs\":1000000000000,\"fence\":\"",
          "\"lockId\":\"AAAAAAAAAAAAAAAAAAAAAA\"",
          "\xE2\x80\xA8\xE2\x80\xA9",
          "\xF0\x9F\x94\x92",
          "\xEF\xBF\xBF",
          "%d%s%1",
          "^[%w]+$",
          "\u00e9",
          "fence",
          "fence:",
          "fence:p",
          "id",
          "id:",
          "id:short",
          "wake:0:p:k",
          "syncguard",
          std::string(512, '"'),
          std::string(511, 'a') + "\\"};
}

TEST_F(RedisRecords, HostileKeysAreNothingButKeys) {
  for (const auto& name : hostile_keys()) {
    SCOPED_TRACE(name);
    const auto holder = LockId::generate();
    const auto granted = locks->acquire(holder, name);
    ASSERT_TRUE(granted);
    EXPECT_EQ(locks->acquire(holder, name)->expires_at, granted->expires_at);
    EXPECT_FALSE(locks->acquire(other, name));
    for (const auto& found : {*locks->try_lookup(name), *locks->try_lookup(holder)}) {
      ASSERT_TRUE(found);
      EXPECT_EQ(found->key.str(), name);
      EXPECT_EQ(found->id, holder);
      EXPECT_EQ(found->fence, granted->fence);
      EXPECT_EQ(found->expires_at, granted->expires_at);
    }
    const auto extended = std::get<Extended>(*locks->try_extend(holder, name, 120s));
    EXPECT_EQ((*locks->try_lookup(name))->expires_at, extended.expires_at);
    EXPECT_EQ(locks->release(other, name), Absence::other_owner);
    EXPECT_FALSE(locks->release(holder));
    EXPECT_FALSE(*locks->try_is_locked(name));
  }
}

TEST_F(RedisRecords, SomebodyElsesRecordIsReadWhateverTheOrderOfItsFields) {
  std::vector<std::string> order = {"acquiredAtMs", "expiresAtMs", "fence", "key", "lockId"};
  const auto names = hostile_keys();
  std::size_t next = 0;
  do {
    const auto& name = names[next++ % names.size()];
    SCOPED_TRACE(name);
    const auto holder = LockId::generate();
    const auto plain = record(holder, name, now + minute);
    ordered_json shuffled;
    for (const auto& field : order) shuffled[field] = plain[field];
    std::string text = shuffled.dump();
    if (next % 2 == 0) {  // as cjson writes slashes
      for (std::size_t at = 0; (at = text.find('/', at)) != std::string::npos; at += 2)
        text.replace(at, 1, "\\/");
    }
    locks->raw.text({"SET", locks->lock_key(name), text, "PX", "60000"});
    locks->raw.text({"SET", locks->index_key(holder), locks->lock_key(name), "PX", "60000"});

    EXPECT_TRUE(*locks->try_is_locked(name));
    EXPECT_FALSE(locks->acquire(other, name));
    EXPECT_EQ(locks->release(other, name), Absence::other_owner);
    const auto again = locks->acquire(holder, name);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->fence.value(), 7U);
    EXPECT_EQ(to_ms(again->expires_at), now + minute);
    EXPECT_EQ((*locks->try_lookup(holder))->key.str(), name);
    const auto extended = std::get<Extended>(*locks->try_extend(holder, std::nullopt, 120s));
    const auto after = *locks->try_lookup(name);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->key.str(), name);
    EXPECT_EQ(after->expires_at, extended.expires_at);
    EXPECT_EQ(to_ms(after->acquired_at), 1'700'000'000'000);
    EXPECT_FALSE(locks->release(holder, name));
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(next, 120U);
}

TEST_F(RedisRecords, AKeyThatContainsALockIdWhereTheOwnerIsExpectedMakesNobodyTheOwner) {
  // Between `{"key":"` and the second field there is room for three characters and an id: the third piece of
  // such a record begins where Holdfast's own records have theirs.
  const std::string name = "abc" + std::string(id.str());
  const auto plain = record(other, name, now + minute);
  ordered_json shuffled;
  for (const auto* field : {"key", "expiresAtMs", "fence", "lockId", "acquiredAtMs"})
    shuffled[field] = plain[field];
  const auto text = shuffled.dump();
  ASSERT_EQ(text.substr(11, 22), id.str());
  ASSERT_EQ(text.substr(33, 16), "\",\"expiresAtMs\":");
  locks->raw.text({"SET", locks->lock_key(name), text});
  EXPECT_FALSE(locks->acquire(id, name));
  EXPECT_EQ(locks->release(id, name), Absence::other_owner);
  EXPECT_EQ(std::get<Absence>(*locks->try_extend(id, name)), Absence::other_owner);
  EXPECT_FALSE(locks->release(other, name));
}

TEST_F(RedisRecords, ATombstoneReplacesAnIndexThatLeadsToALockPastItsTime) {
  put(id, "old", now - minute);
  EXPECT_EQ(locks->release(id, "k", redis::Release::for_good), Absence::not_found);
  EXPECT_EQ(get(locks->index_key(id)), "");
  EXPECT_FALSE(locks->try_acquire(id, "k"));
}

TEST_F(RedisRecords, FieldsThatAreNotKnownSurviveAnExtend) {
  for (const bool foreign : {false, true}) {
    auto fields = record(id, "k", now + minute);
    fields["note"] = {{"expiresAtMs", 1}, {"list", {1, "two", nullptr}}};
    locks->raw.text({"SET", "p:k", foreign ? json(fields).dump() : fields.dump()});
    const auto extended = std::get<Extended>(*locks->try_extend(id, "k"));
    fields["expiresAtMs"] = to_ms(extended.expires_at);
    EXPECT_EQ(json::parse(get("p:k")), json(fields));
  }
}

TEST_F(RedisRecords, AnExpiryOfAnyLengthIsUnderstood) {
  for (const auto expires_at : {1L, 999'999'999'999L, 10'000'000'000'000L, 99'999'999'999'999L}) {
    put(id, "k", expires_at);
    EXPECT_EQ(*locks->try_is_locked("k"), expires_at > now) << expires_at;
  }
}

TEST_F(RedisRecords, CleanupDeletesWhatEndedMoreThanTwoSecondsAgoAndNeverAFence) {
  locks->freeze(now);
  locks->raw.text({"SET", "p:fence:p:k", "7"});
  EXPECT_EQ(locks->cleanup("k"), 0);
  for (const bool foreign : {false, true}) {
    for (const auto past : {-minute, 0L, 1000L, 2000L}) {
      foreign ? put_foreign(id, "k", now - past) : put(id, "k", now - past);
      EXPECT_EQ(locks->cleanup("k"), 0) << past;
      EXPECT_TRUE(exists("p:k"));
      EXPECT_TRUE(exists(locks->index_key(id)));
    }
    foreign ? put_foreign(id, "k", now - 2001) : put(id, "k", now - 2001);
    EXPECT_EQ(locks->cleanup("k"), 1);
    EXPECT_EQ(locks->raw.text({"KEYS", "*"}), "p:fence:p:k");
  }
}

TEST_F(RedisRecords, CleanupLeavesTheIndexOfAnOwnerThatHoldsAnotherLockByNow) {
  put(id, "old", now - minute);
  ASSERT_TRUE(locks->acquire(id, "new"));
  EXPECT_EQ(locks->cleanup("old"), 1);
  EXPECT_EQ((*locks->try_lookup(id))->key.str(), "new");
}

/// A lock as SyncGuard 1.0 leaves it: a fence of 19 digits, and an index that is the user key.
class OldRecords : public RedisRecords {
 protected:
  void hold(const LockId& holder, const std::string& name) {
    const auto end = std::to_string(locks->raw.now_ms() + 600'000);
    locks->raw.text({"SET", "p:" + name,
                     R"({"key":")" + name +
                         R"(","acquiredAtMs":1700000000000,"fence":"0000000000000000042","lockId":")" +
                         std::string(holder.str()) + R"(","expiresAtMs":)" + end + "}",
                     "PX", "600000"});
    locks->raw.text({"SET", locks->index_key(holder), name, "PX", "600000"});
  }
  [[nodiscard]] std::optional<LockRecord> found(const LockId& holder) {
    return locks->try_lookup(holder).value_or_throw();
  }
  /// The key of the lock that is found by this id; empty if none is.
  [[nodiscard]] std::string key_by(const LockId& holder) {
    const auto record = found(holder);
    return record ? record->key.str() : "";
  }
};

TEST_F(OldRecords, AreFoundByTheirId) {
  hold(id, "old");
  const auto record = found(id);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->key.str(), "old");
  EXPECT_EQ(record->fence.value(), 42U);
  EXPECT_EQ(record->fence_digits, 19);
  EXPECT_FALSE(found(other));
}

TEST_F(OldRecords, AreExtendedByTheirIdWithoutHarmToTheirHolder) {
  hold(id, "old");
  const auto outcome = locks->try_extend(id, {}, 300s).value_or_throw();
  ASSERT_TRUE(std::holds_alternative<Extended>(outcome));
  EXPECT_EQ(locks->raw.text({"GET", locks->index_key(id)}), "old") << "by which SyncGuard 1.0 finds it";
  const auto record = found(id);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->expires_at, std::get<Extended>(outcome).expires_at);
  EXPECT_EQ(record->fence_digits, 19);
}

TEST_F(OldRecords, AreReleasedByTheirId) {
  for (const auto how : {redis::Release::plain, redis::Release::for_good, redis::Release::by_force}) {
    hold(id, "old");
    EXPECT_FALSE(locks->release(id, {}, how)) << "released";
    EXPECT_FALSE(found(id));
    EXPECT_EQ(locks->raw.integer({"EXISTS", "p:old"}), 0);
    locks->raw.text({"DEL", locks->index_key(id)});
  }
}

TEST_F(OldRecords, AKeyThatBeginsWithThePrefixIsReadBothWays) {
  hold(id, "p:x");
  EXPECT_EQ(key_by(id), "p:x");
  ASSERT_TRUE(locks->acquire(other, "x")) << "another lock";
  EXPECT_EQ(key_by(id), "p:x");
  EXPECT_EQ(key_by(other), "x");
  EXPECT_FALSE(locks->release(id)) << "released";
  EXPECT_EQ(key_by(other), "x") << "untouched";
}

TEST_F(OldRecords, NamesOutsideThePrefixAreNotRead) {
  locks->raw.text({"SET", "stranger", "x"});
  locks->raw.text({"SET", locks->index_key(id), "stranger"});
  locks->raw.text({"CONFIG", "RESETSTAT"});
  EXPECT_FALSE(found(id));
  EXPECT_EQ(locks->release(id), Absence::not_found);
  EXPECT_EQ(locks->raw.text({"GET", "stranger"}), "x");
  // Nor is a value of another type where the lock would be.
  locks->raw.text({"RPUSH", "p:stranger", "x"});
  EXPECT_FALSE(found(id));
}

}  // namespace
}  // namespace holdfast::test
