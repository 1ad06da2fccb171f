#include <gtest/gtest.h>

#include "engine/sqlite/fences.hpp"

namespace holdfast::sqlite {
namespace {

TEST(SqliteFences, RiseByOneAndReserveMoreWhenHalfABlockIsUsed) {
  FenceSequence sequence{.last = 0, .reserved = fence_block, .in_file = fence_block};
  int raises = 0;
  for (std::uint64_t expected = 1; expected <= 2 * fence_block; ++expected) {
    const auto grant = next_fence(sequence);
    ASSERT_TRUE(grant.ok());
    ASSERT_EQ(grant->fence.value(), expected);
    ASSERT_NE(grant->reserve, FenceReserve::none);
    if (grant->reserve == FenceReserve::low) {
      ++raises;
      sequence = with_full_reserve(sequence);
      sequence.in_file = sequence.reserved;
    }
    sequence.last = expected;
    ASSERT_GE(sequence.in_file, expected + fence_block / 2 - 1);
  }
  EXPECT_EQ(raises, 3);
}

TEST(SqliteFences, AreNotGrantedAboveWhatTheFileItselfReserves) {
  EXPECT_EQ(next_fence({.last = 0, .reserved = 0, .in_file = 0})->reserve, FenceReserve::none);
  EXPECT_EQ(next_fence({.last = 7, .reserved = 100'007, .in_file = 7})->reserve, FenceReserve::none);
  EXPECT_EQ(next_fence({.last = 7, .reserved = 7, .in_file = 100'007})->reserve, FenceReserve::none);
  EXPECT_EQ(next_fence({.last = 6, .reserved = 100'007, .in_file = 7})->reserve, FenceReserve::enough);
}

TEST(SqliteFences, WhileTheLogCannotBeCopiedTryNowAndThen) {
  FenceSequence sequence{.last = 50'000, .reserved = 150'001, .in_file = 100'000};
  int tries = 0;
  for (; sequence.last < sequence.in_file; ++sequence.last) {
    const auto grant = next_fence(sequence);
    ASSERT_NE(grant->reserve, FenceReserve::none);
    if (grant->reserve == FenceReserve::low) ++tries;
  }
  EXPECT_EQ(tries, 50);
  EXPECT_EQ(next_fence(sequence)->reserve, FenceReserve::none);
}

TEST(SqliteFences, GoOnAboveEverythingReservedAfterAReboot) {
  EXPECT_EQ(without_lost_tail({.last = 7, .reserved = 100, .in_file = 100}),
            (FenceSequence{.last = 100, .reserved = 100, .in_file = 100}));
  EXPECT_EQ(without_lost_tail({.last = 101, .reserved = 100, .in_file = 100}),
            (FenceSequence{.last = 101, .reserved = 101, .in_file = 100}));
  const auto grant = next_fence(without_lost_tail({.last = 7, .reserved = 100, .in_file = 100}));
  EXPECT_EQ(grant->fence.value(), 101U);
  EXPECT_EQ(grant->reserve, FenceReserve::none);
}

TEST(SqliteFences, EndAtTheHighestThatMayBeIssued) {
  const auto full = with_full_reserve({.last = Fence::max_issued - 1, .reserved = 5, .in_file = 5});
  EXPECT_EQ(full.reserved, Fence::max_issued);
  const auto last = next_fence({.last = full.last, .reserved = full.reserved, .in_file = full.reserved});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->fence.value(), Fence::max_issued);
  EXPECT_EQ(last->reserve, FenceReserve::enough) << "there is nothing left to reserve";
  EXPECT_EQ(next_fence({.last = Fence::max_issued, .reserved = full.reserved, .in_file = full.reserved})
                .error()
                .code(),
            ErrorCode::Internal);
}

}  // namespace
}  // namespace holdfast::sqlite
