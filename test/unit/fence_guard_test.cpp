#include "core/record_decisions.hpp"

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
  EXPECT_EQ(refusal->why, ErrorCode::StaleFence);
  EXPECT_EQ(refusal->given.value(), 4U);
  EXPECT_EQ(refusal->bound_to, token(5));
}

TEST(FenceGuard, FencesOfAnotherLockOrStoreAreNotCompared) {
  for (const auto& other : {token(4, "other"), token(5, "other"), token(6, "other"),
                            token(4, "lock", "elsewhere"), token(6, "lock", "elsewhere")}) {
    const auto refusal = refuse_fence(token(5), other);
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->why, ErrorCode::WrongLock);
    EXPECT_EQ(refusal->bound_to, token(5));
  }
}

}  // namespace
}  // namespace holdfast::core
