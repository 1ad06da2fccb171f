#include "engine/redis/unanswered_acquires.hpp"

#include <gtest/gtest.h>

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;

constexpr BootTime start{1000s};

TEST(UnansweredAcquires, AnIdIsRememberedUntilTheServerHasAnsweredMuchLater) {
  UnansweredAcquires ids;
  const auto id = LockId::generate();
  EXPECT_FALSE(ids.contains(id));
  ids.add(id, 0, start);
  ids.answered(0, start + request_may_be_late - 1ns);
  EXPECT_TRUE(ids.contains(id)) << "a copy may still be under way";
  ids.answered(0, start + request_may_be_late);
  EXPECT_FALSE(ids.contains(id));
}

TEST(UnansweredAcquires, AServerThatStandsStillForAnHourLeavesEveryIdInDoubt) {
  UnansweredAcquires ids;
  const auto before = LockId::generate();
  const auto after = LockId::generate();
  ids.add(before, 0, start);
  ids.add(after, 0, start + 1h);  // no answer in between
  EXPECT_TRUE(ids.contains(before));
  ids.answered(0, start + 1h + 1s);
  EXPECT_FALSE(ids.contains(before));
  EXPECT_TRUE(ids.contains(after));
}

TEST(UnansweredAcquires, TheLastLostCopyOfAnIdCounts) {
  UnansweredAcquires ids;
  const auto id = LockId::generate();
  ids.add(id, 0, start);
  ids.add(id, 0, start + 10s);
  ids.answered(0, start + request_may_be_late + 5s);
  EXPECT_TRUE(ids.contains(id));
  ids.answered(0, start + request_may_be_late + 10s);
  EXPECT_FALSE(ids.contains(id));
}

/// In a cluster: the answers of other nodes say nothing about the input of the one that stands still.
TEST(UnansweredAcquires, OnlyTheServerThatHasTheCopyClearsTheDoubt) {
  UnansweredAcquires ids;
  const auto id = LockId::generate(), at_both = LockId::generate();
  ids.add(id, 1, start);
  ids.add(at_both, 1, start);
  ids.add(at_both, 2, start);
  ids.answered(2, start + 2 * request_may_be_late);
  EXPECT_TRUE(ids.contains(id));
  EXPECT_TRUE(ids.contains(at_both));
  ids.answered(1, start + 2 * request_may_be_late);
  EXPECT_FALSE(ids.contains(id));
  EXPECT_FALSE(ids.contains(at_both));
}

TEST(UnansweredAcquires, KeepsTheLatestOfTooMany) {
  UnansweredAcquires ids;
  const auto first = LockId::generate();
  ids.add(first, 0, start);
  auto last = first;
  for (std::size_t i = 0; i < UnansweredAcquires::most; ++i)
    ids.add(last = LockId::generate(), 0, start + 1s);
  EXPECT_FALSE(ids.contains(first));
  EXPECT_TRUE(ids.contains(last));
}

}  // namespace
}  // namespace holdfast::redis
