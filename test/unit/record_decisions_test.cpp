#include "core/record_decisions.hpp"

#include <gtest/gtest.h>

#include "support/storage_calls.hpp"
#include "support/times.hpp"

namespace holdfast::core {
namespace {

class RecordDecisions : public testing::Test {
 protected:
  static constexpr WallTime now = test::from_ms(1'000'000);  // 1970-01-01T00:16:40Z

  [[nodiscard]] static FencingToken token(std::uint64_t fence, std::string lock_key = "lock",
                                          std::string authority = "store") {
    return {.authority = std::move(authority), .lock_key = std::move(lock_key), .fence = *Fence::of(fence)};
  }
  [[nodiscard]] static RecordEntry entry(std::optional<WallTime> expires_at = std::nullopt) {
    return {.record =
                {.data = {}, .version = 3, .incarnation = "second", .bound_to = token(5), .origin = "origin"},
            .created_at = test::from_ms(1),
            .expires_at = expires_at};
  }
  [[nodiscard]] static RecordEntry unguarded() {
    auto record = entry();
    record.record.bound_to.reset();
    return record;
  }
  [[nodiscard]] PutRecord put_request(std::optional<FencingToken> fence = std::nullopt,
                                      std::optional<ExpectedVersion> expected = std::nullopt) const {
    return {.key = key, .data = data, .expected = std::move(expected), .fence = std::move(fence)};
  }
  [[nodiscard]] RemoveRecord remove_request(std::optional<FencingToken> fence = std::nullopt,
                                            std::optional<ExpectedVersion> expected = std::nullopt) const {
    return {.key = key, .expected = std::move(expected), .fence = std::move(fence)};
  }
  [[nodiscard]] CreateRecord create_request(std::optional<std::size_t> quota = std::nullopt) const {
    return {.key = key, .data = data, .quota = quota, .origin = "request 1", .fence = token(9)};
  }
  [[nodiscard]] BindDecision guard(const RecordEntry* found, const FencingToken& fence,
                                   const std::string& incarnation = {}) const {
    return decide_bind({.key = key, .fence = fence, .incarnation = incarnation}, found, now);
  }
  [[nodiscard]] RebindDecision rebind(const RecordEntry* found, const std::optional<FencingToken>& fence,
                                      const std::optional<std::string>& from_authority = std::nullopt) const {
    return decide_rebind({.key = key, .fence = fence, .from_authority = from_authority}, found, now);
  }

  const RecordKey key = *RecordKey::parse("owner:task");
  const RecordData data = *RecordData::parse(
      R"({"task":{"createdAt":"1970-01-01T00:00:07Z"},"expiresAt":"1970-01-01T00:20:00Z"})");
  const RecordEntry there = entry();
  const RecordEntry expiring = entry(now + std::chrono::milliseconds(1));
  const RecordEntry expired = entry(now);
};

TEST_F(RecordDecisions, ARecordIsPresentUntilTheMillisecondOfItsExpiry) {
  EXPECT_TRUE(is_present(&there, now));
  EXPECT_TRUE(is_present(&expiring, now));
  EXPECT_FALSE(is_present(&expired, now));
  EXPECT_FALSE(is_present(nullptr, now));
  EXPECT_TRUE(std::holds_alternative<Unchanged>(decide_get(&expiring, now)));
  EXPECT_TRUE(std::holds_alternative<std::nullopt_t>(decide_get(&expired, now)));
}

TEST_F(RecordDecisions, ACreateInsertsTheFirstVersionWithTheTimesOfItsData) {
  for (const auto* absent : {static_cast<const RecordEntry*>(nullptr), &expired}) {
    const auto decision = decide_create(create_request(), absent, 0, now);
    const auto& inserted = std::get<Insert>(decision).entry;
    EXPECT_EQ(inserted.record.version, 1U);
    EXPECT_EQ(inserted.record.origin, "request 1");
    EXPECT_EQ(inserted.record.bound_to, token(9));
    EXPECT_EQ(inserted.created_at, test::from_ms(7'000));
    EXPECT_EQ(inserted.expires_at, test::from_ms(1'200'000));
  }
}

TEST_F(RecordDecisions, ACreateNeverReplacesAPresentRecordNotEvenOverQuota) {
  EXPECT_TRUE(std::holds_alternative<Existing>(decide_create(create_request(), &expiring, 0, now)));
  EXPECT_TRUE(std::holds_alternative<Existing>(decide_create(create_request(1), &there, 9, now)));
}

TEST_F(RecordDecisions, ACreateIsRefusedFromTheQuotaOn) {
  EXPECT_TRUE(std::holds_alternative<Insert>(decide_create(create_request(3), nullptr, 2, now)));
  for (const std::size_t records : {3U, 4U}) {
    const auto decision = decide_create(create_request(3), &expired, records, now);
    EXPECT_EQ(std::get<QuotaReached>(decision).records, records);
  }
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(decide_create(create_request(0), nullptr, 0, now)));
  EXPECT_TRUE(std::holds_alternative<Insert>(decide_create(create_request(), nullptr, 9, now)));
}

TEST_F(RecordDecisions, RecordsAreCountedOnlyForACreateThatTheQuotaCanRefuse) {
  EXPECT_TRUE(needs_count(create_request(3), nullptr, now));
  EXPECT_TRUE(needs_count(create_request(3), &expired, now));
  EXPECT_FALSE(needs_count(create_request(3), &there, now));
  EXPECT_FALSE(needs_count(create_request(), nullptr, now));
}

TEST_F(RecordDecisions, APutUpdatesAPresentRecordAndKeepsItsGuard) {
  const auto decision = decide_put(put_request(), &expiring, now);
  const auto& update = std::get<Update>(decision);
  EXPECT_EQ(update.version, 4U);
  EXPECT_EQ(update.expires_at, test::from_ms(1'200'000));
  EXPECT_EQ(update.bound_to, token(5));
}

TEST_F(RecordDecisions, AFencedPutRaisesTheGuardOrBindsTheRecord) {
  EXPECT_EQ(std::get<Update>(decide_put(put_request(token(5)), &there, now)).bound_to, token(5));
  EXPECT_EQ(std::get<Update>(decide_put(put_request(token(6)), &there, now)).bound_to, token(6));
  const auto free = unguarded();
  EXPECT_EQ(std::get<Update>(decide_put(put_request(token(2)), &free, now)).bound_to, token(2));
}

TEST_F(RecordDecisions, APutOfAnAbsentRecordInsertsOnlyIfItMeansNoEarlierOne) {
  for (const auto* absent : {static_cast<const RecordEntry*>(nullptr), &expired}) {
    EXPECT_EQ(std::get<Insert>(decide_put(put_request(), absent, now)).entry.record.origin, "");
    const auto fenced = put_request(token(5));
    EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_put(fenced, absent, now)));
    const auto conditional = put_request(std::nullopt, ExpectedVersion{.version = 3});
    EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_put(conditional, absent, now)));
    auto creating = fenced;
    creating.fenced_may_create = true;
    EXPECT_EQ(std::get<Insert>(decide_put(creating, absent, now)).entry.record.bound_to, token(5));
    creating.expected = ExpectedVersion{.version = 3};
    EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_put(creating, absent, now)));
  }
}

TEST_F(RecordDecisions, AnotherVersionIsAConflictWithBothNumbers) {
  for (const std::uint64_t version : {2U, 4U}) {
    const auto decision = decide_put(put_request(std::nullopt, ExpectedVersion{version}), &there, now);
    const auto& conflict = std::get<VersionConflict>(decision);
    EXPECT_EQ(conflict.expected, version);
    EXPECT_EQ(conflict.actual, 3U);
    EXPECT_FALSE(conflict.replaced);
  }
  EXPECT_TRUE(
      std::holds_alternative<Update>(decide_put(put_request(std::nullopt, ExpectedVersion{3}), &there, now)));
}

TEST_F(RecordDecisions, TheSameVersionOfAnotherIncarnationIsAnotherRecord) {
  const auto of_first = remove_request(std::nullopt, ExpectedVersion{.version = 3, .incarnation = "first"});
  EXPECT_TRUE(std::get<VersionConflict>(decide_remove(of_first, &there, now)).replaced);
  const auto of_second = remove_request(std::nullopt, ExpectedVersion{.version = 3, .incarnation = "second"});
  EXPECT_TRUE(std::holds_alternative<Remove>(decide_remove(of_second, &there, now)));
}

TEST_F(RecordDecisions, AStaleFenceOrAnotherLocksIsRefusedBeforeTheVersion) {
  const ExpectedVersion wrong{.version = 2};
  for (const auto& expected : {std::optional<ExpectedVersion>(), std::optional(wrong)}) {
    const auto stale = decide_put(put_request(token(4), expected), &there, now);
    const auto* refused = test::refused_with(ErrorCode::StaleFence, stale);
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->given.value(), 4U);
    EXPECT_EQ(refused->bound_to, token(5));
    const auto removed = decide_remove(remove_request(token(4), expected), &there, now);
    EXPECT_NE(test::refused_with(ErrorCode::StaleFence, removed), nullptr);
    for (const auto& other : {token(9, "other"), token(9, "lock", "elsewhere")}) {
      const auto decision = decide_remove(remove_request(other, expected), &there, now);
      ASSERT_NE(test::refused_with(ErrorCode::WrongLock, decision), nullptr);
      EXPECT_EQ(test::refused_with(ErrorCode::WrongLock, decision)->bound_to, token(5));
    }
  }
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(decide_put(put_request(token(5), wrong), &there, now)));
}

TEST_F(RecordDecisions, ARemoveNeedsAPresentRecord) {
  EXPECT_TRUE(std::holds_alternative<Remove>(decide_remove(remove_request(), &expiring, now)));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_remove(remove_request(), &expired, now)));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_remove(remove_request(token(4)), nullptr, now)));
}

TEST_F(RecordDecisions, AGuardBindsAFreeRecordAndRaisesTheFenceOfItsOwnLock) {
  const auto free = unguarded();
  EXPECT_EQ(std::get<SetGuard>(guard(&free, token(1, "other"))).bound_to, token(1, "other"));
  EXPECT_EQ(std::get<SetGuard>(guard(&expiring, token(6))).bound_to, token(6));
  EXPECT_TRUE(std::holds_alternative<Unchanged>(guard(&there, token(5))));
}

TEST_F(RecordDecisions, AGuardIsRefusedLikeAWrite) {
  const auto stale = guard(&there, token(4));
  ASSERT_NE(test::refused_with(ErrorCode::StaleFence, stale), nullptr);
  EXPECT_EQ(test::refused_with(ErrorCode::StaleFence, stale)->bound_to, token(5));
  for (const auto& other : {token(9, "other"), token(9, "lock", "elsewhere")}) {
    const auto wrong = guard(&there, other);
    ASSERT_NE(test::refused_with(ErrorCode::WrongLock, wrong), nullptr);
    EXPECT_EQ(test::refused_with(ErrorCode::WrongLock, wrong)->bound_to, token(5));
  }
}

TEST_F(RecordDecisions, AGuardFindsNoRecordOfAnotherIncarnation) {
  EXPECT_TRUE(std::holds_alternative<SetGuard>(guard(&there, token(6), "second")));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(guard(&there, token(6), "first")));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(guard(&there, token(4), "first")));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(guard(&expired, token(6), "second")));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(guard(nullptr, token(6))));
}

TEST_F(RecordDecisions, ARebindSetsAnyGuardOrNone) {
  EXPECT_EQ(std::get<SetGuard>(rebind(&there, token(1, "other"))).bound_to, token(1, "other"));
  EXPECT_EQ(std::get<SetGuard>(rebind(&expiring, token(4))).bound_to, token(4));
  EXPECT_EQ(std::get<SetGuard>(rebind(&there, std::nullopt)).bound_to, std::nullopt);
  EXPECT_TRUE(std::holds_alternative<Unchanged>(rebind(&there, token(5))));
  const auto free = unguarded();
  EXPECT_TRUE(std::holds_alternative<Unchanged>(rebind(&free, std::nullopt)));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(rebind(&expired, token(6))));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(rebind(nullptr, std::nullopt)));
}

TEST_F(RecordDecisions, ARebindFromAnAuthorityLeavesTheLocksOfOthers) {
  EXPECT_EQ(std::get<SetGuard>(rebind(&there, token(1), "store")).bound_to, token(1));
  EXPECT_EQ(std::get<SetGuard>(rebind(&there, std::nullopt, "store")).bound_to, std::nullopt);
  EXPECT_TRUE(std::holds_alternative<Unchanged>(rebind(&there, token(1), "elsewhere")));
  const auto free = unguarded();
  EXPECT_TRUE(std::holds_alternative<Unchanged>(rebind(&free, token(1), "store")));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(rebind(&expired, token(1), "store")));
}

TEST_F(RecordDecisions, AnEngineCarriesOutStepsAndPassesOnOutcomes) {
  const auto store = [](auto step) -> Written {
    EXPECT_TRUE((std::is_same_v<decltype(step), Update>));
    return {.version = 4, .incarnation = "second"};
  };
  const auto written = carry_out<PutOutcome>(decide_put(put_request(), &there, now), store);
  EXPECT_EQ(std::get<Written>(written).version, 4U);
  const auto refused = carry_out<PutOutcome>(decide_put(put_request(token(4)), &there, now), store);
  EXPECT_NE(test::refused_with(ErrorCode::StaleFence, refused), nullptr);
}

}  // namespace
}  // namespace holdfast::core
