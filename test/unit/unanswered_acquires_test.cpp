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
  ids.add(id, start);
  ids.answered(start + request_may_be_late - 1ns);
  EXPECT_TRUE(ids.contains(id)) << "a copy may still be under way";
  ids.answered(start + request_may_be_late);
  EXPECT_FALSE(ids.contains(id));
}

TEST(UnansweredAcquires, AServerThatStandsStillForAnHourLeavesEveryIdInDoubt) {
  UnansweredAcquires ids;
  const auto before = LockId::generate();
  const auto after = LockId::generate();
  ids.add(before, start);
  ids.add(after, start + 1h);  // no answer in between
  EXPECT_TRUE(ids.contains(before));
  ids.answered(start + 1h + 1s);
  EXPECT_FALSE(ids.contains(before));
  EXPECT_TRUE(ids.contains(after));
}

TEST(UnansweredAcquires, TheLastLostCopyOfAnIdCounts) {
  UnansweredAcquires ids;
  const auto id = LockId::generate();
  ids.add(id, start);
  ids.add(id, start + 10s);
  ids.answered(start + request_may_be_late + 5s);
  EXPECT_TRUE(ids.contains(id));
  ids.answered(start + request_may_be_late + 10s);
  EXPECT_FALSE(ids.contains(id));
}

TEST(UnansweredAcquires, KeepsTheLatestOfTooMany) {
  UnansweredAcquires ids;
  const auto first = LockId::generate();
  ids.add(first, start);
  auto last = first;
  for (std::size_t i = 0; i < UnansweredAcquires::most; ++i) ids.add(last = LockId::generate(), start + 1s);
  EXPECT_FALSE(ids.contains(first));
  EXPECT_TRUE(ids.contains(last));
}

}  // namespace
}  // namespace holdfast::redis
