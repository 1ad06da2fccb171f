#include "core/fence_guard.hpp"

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

FencingToken token(std::uint64_t fence, std::string lock_key = "lock", std::string authority = "store") {
  return {.authority = std::move(authority), .lock_key = std::move(lock_key), .fence = *Fence::of(fence)};
}

TEST(FenceGuard, ARecordThatNoLockGuardsTakesAnyFence) {
  EXPECT_FALSE(refuse_fence(std::nullopt, token(0)));
  EXPECT_FALSE(refuse_fence(std::nullopt, token(7)));
}

TEST(FenceGuard, AnEqualOrHigherFenceOfItsLockPasses) {
  EXPECT_FALSE(refuse_fence(token(5), token(5)));
  EXPECT_FALSE(refuse_fence(token(5), token(6)));
}

TEST(FenceGuard, ALowerFenceIsRefusedWithBothNumbers) {
  const auto refusal = refuse_fence(token(5), token(4));
  ASSERT_TRUE(refusal);
  const auto& stale = std::get<StaleFence>(*refusal);
  EXPECT_EQ(stale.given.value(), 4U);
  EXPECT_EQ(stale.highest.value(), 5U);
}

TEST(FenceGuard, FencesOfAnotherLockOrStoreAreNotCompared) {
  for (const auto& other : {token(4, "other"), token(5, "other"), token(6, "other"),
                            token(4, "lock", "elsewhere"), token(6, "lock", "elsewhere")}) {
    const auto refusal = refuse_fence(token(5), other);
    ASSERT_TRUE(refusal);
    EXPECT_EQ(std::get<WrongLock>(*refusal).guarded_by, token(5));
  }
}

StoredRecord stored(std::uint64_t version, std::string incarnation,
                    std::optional<FencingToken> guarded_by = std::nullopt) {
  return {.data = {},
          .version = version,
          .incarnation = std::move(incarnation),
          .guarded_by = std::move(guarded_by),
          .origin = {}};
}

TEST(WriteRefusal, ComesFromTheFenceBeforeTheVersion) {
  const auto there = stored(3, "one", token(5));
  const ExpectedVersion wrong{.version = 2, .incarnation = {}};
  EXPECT_TRUE(std::holds_alternative<StaleFence>(*refuse_write(there, token(4), wrong)));
  EXPECT_TRUE(std::holds_alternative<WrongLock>(*refuse_write(there, token(4, "other"), wrong)));
  EXPECT_TRUE(std::holds_alternative<VersionConflict>(*refuse_write(there, token(5), wrong)));
}

TEST(WriteRefusal, AWriteWithoutAFenceIsNotCheckedForOne) {
  EXPECT_FALSE(refuse_write(stored(3, "one", token(5)), std::nullopt, std::nullopt));
}

TEST(WriteRefusal, AnotherVersionIsToldWithBothNumbers) {
  const auto refusal = refuse_write(stored(3, "one"), std::nullopt, ExpectedVersion{.version = 2});
  const auto& conflict = std::get<VersionConflict>(refusal.value());
  EXPECT_EQ(conflict.expected, 2U);
  EXPECT_EQ(conflict.actual, 3U);
  EXPECT_FALSE(conflict.replaced);
}

TEST(WriteRefusal, TheSameVersionOfAnotherIncarnationIsAnotherRecord) {
  const auto there = stored(1, "second");
  const auto refusal =
      refuse_write(there, std::nullopt, ExpectedVersion{.version = 1, .incarnation = "first"});
  EXPECT_TRUE(std::get<VersionConflict>(refusal.value()).replaced);
  EXPECT_FALSE(refuse_write(there, std::nullopt, ExpectedVersion{.version = 1, .incarnation = "second"}));
  EXPECT_FALSE(refuse_write(there, std::nullopt, ExpectedVersion{.version = 1, .incarnation = {}}));
}

}  // namespace
}  // namespace holdfast::core
