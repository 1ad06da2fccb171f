#include "core/repeated_release.hpp"

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

using namespace std::chrono_literals;

constexpr BootTime now{1000h};

class ReleaseSentTwice : public testing::Test {
 protected:
  [[nodiscard]] RepeatedRelease verdict(const ReleaseEvidence& evidence) const {
    return judge_repeated_release(proof, evidence, now);
  }
  std::optional<HolderProof> proof =
      HolderProof{.fence = *Fence::of(7), .authority = "store", .until = now + 1ns};
  const ReleaseEvidence as_granted{.authority = "store", .counter = 7};
};

TEST_F(ReleaseSentTwice, IsDoneIfNothingElseCanHaveEndedTheLock) {
  EXPECT_EQ(verdict(as_granted), RepeatedRelease::done);
}

TEST_F(ReleaseSentTwice, IsDoneAlsoIfTheNextHolderHasItAlready) {
  EXPECT_EQ(verdict({.authority = "store", .counter = 9}), RepeatedRelease::done);
}

TEST_F(ReleaseSentTwice, IsNotDoneIfAnOperatorBrokeTheLock) {
  EXPECT_EQ(verdict({.broken = true, .authority = "store", .counter = 7}), RepeatedRelease::absent);
}

TEST_F(ReleaseSentTwice, IsUnknownIfTheMarkOfABreakMayHaveEndedSinceTheLockWasConfirmed) {
  proof->confirmed = now - 23h;
  EXPECT_EQ(verdict(as_granted), RepeatedRelease::done);
  proof->confirmed = now - longest_break_mark;
  EXPECT_EQ(verdict(as_granted), RepeatedRelease::unknown);
  EXPECT_EQ(verdict({.authority = "other", .counter = 7}), RepeatedRelease::absent);
}

TEST_F(ReleaseSentTwice, IsNotDoneIfTheStoreLostItsDataOrWentBackInTime) {
  EXPECT_EQ(verdict({.authority = "other", .counter = 7}), RepeatedRelease::absent);
  EXPECT_EQ(verdict({.authority = "", .counter = 0}), RepeatedRelease::absent);
  EXPECT_EQ(verdict({.authority = "store", .counter = 6}), RepeatedRelease::absent);
}

TEST_F(ReleaseSentTwice, IsDoneByAHolderThatDoesNotNameTheKeySoTheCounterIsNotKnown) {
  EXPECT_EQ(verdict({.authority = "store", .counter = {}}), RepeatedRelease::done);
}

TEST_F(ReleaseSentTwice, IsNotDoneIfTheLockWasLostBefore) {
  proof->lost = true;
  EXPECT_EQ(verdict(as_granted), RepeatedRelease::absent);
}

TEST_F(ReleaseSentTwice, IsUnknownIfTheLeaseMayHaveExpiredMeanwhile) {
  proof->until = now;
  EXPECT_EQ(verdict(as_granted), RepeatedRelease::unknown);
}

TEST_F(ReleaseSentTwice, IsUnknownToACallerThatKnowsTheIdAlone) {
  proof.reset();
  EXPECT_EQ(verdict(as_granted), RepeatedRelease::unknown);
  EXPECT_EQ(verdict({.authority = "other", .counter = 0}), RepeatedRelease::unknown);
  EXPECT_EQ(verdict({.broken = true, .authority = "store", .counter = 7}), RepeatedRelease::absent);
}

}  // namespace
}  // namespace holdfast::core
