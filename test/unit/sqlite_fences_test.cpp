#include <gtest/gtest.h>

#include "engine/sqlite/fences.hpp"

namespace holdfast::sqlite {
namespace {

TEST(SqliteFences, RiseByOneAndReserveABlockAheadOnce) {
  FenceSequence sequence;
  int raises = 0;
  for (std::uint64_t expected = 1; expected <= 2 * fence_block; ++expected) {
    const auto grant = next_fence(sequence);
    ASSERT_TRUE(grant.ok());
    ASSERT_EQ(grant->fence.value(), expected);
    ASSERT_GE(grant->after.reserved, expected);
    if (grant->raises_reserve) {
      ++raises;
    } else {
      ASSERT_EQ(grant->after.reserved, sequence.reserved);
    }
    sequence = grant->after;
  }
  EXPECT_EQ(raises, 2);
}

TEST(SqliteFences, GoOnAboveEverythingReservedAfterAReboot) {
  EXPECT_EQ(without_lost_tail({.last = 7, .reserved = 100}), (FenceSequence{.last = 100, .reserved = 100}));
  EXPECT_EQ(without_lost_tail({.last = 101, .reserved = 100}), (FenceSequence{.last = 101, .reserved = 101}));
  const auto grant = next_fence(without_lost_tail({.last = 7, .reserved = 100}));
  EXPECT_EQ(grant->fence.value(), 101U);
  EXPECT_TRUE(grant->raises_reserve);
}

TEST(SqliteFences, EndAtTheHighestThatMayBeIssued) {
  const auto last = next_fence({.last = Fence::max_issued - 1, .reserved = Fence::max_issued - 1});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->fence.value(), Fence::max_issued);
  EXPECT_EQ(last->after.reserved, Fence::max_issued);
  EXPECT_EQ(next_fence(last->after).error().code(), ErrorCode::Internal);
}

}  // namespace
}  // namespace holdfast::sqlite
