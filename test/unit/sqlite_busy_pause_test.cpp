#include <gtest/gtest.h>

#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {
namespace {

using namespace std::chrono_literals;

/// The attempts of a wait whose pauses are all of their middle length.
int attempts_within(std::chrono::nanoseconds wait) {
  int attempts = 0;
  for (std::chrono::nanoseconds waited{}; waited < wait; ++attempts) waited += busy_pause(attempts, 0.5);
  return attempts;
}

TEST(SqliteBusyPause, IsShortAmongBusyWriters) {
  for (const int attempt : {0, 1, 100, 400}) {
    EXPECT_EQ(busy_pause(attempt, 0), 5us);
    EXPECT_EQ(busy_pause(attempt, 1), 65us);
  }
}

TEST(SqliteBusyPause, GrowsWhereATransactionIsKeptOpen) {
  EXPECT_GT(attempts_within(10ms), 250);
  // Each costs about 20 us: a second used to cost 19 % of a processor.
  EXPECT_LT(attempts_within(5s) - attempts_within(1s), 4 * 600);
}

TEST(SqliteBusyPause, CostsNextToNothingOnceATransactionIsKeptOpenForASecond) {
  EXPECT_LE(busy_pause(500, 1), 2ms) << "a tenth of a second";
  EXPECT_LT(attempts_within(1s), 700);
  EXPECT_LT(attempts_within(6s) - attempts_within(2s), 4 * 25);
  EXPECT_LE(busy_pause(1'000'000, 1), 151ms);
}

TEST(SqliteBusyPause, DoesNotLastLongerThanTheWait) {
  const auto before = BootClock::now();
  const WaitLimit limit(before, 1h, {});
  limit.sleep_for(1h);
  EXPECT_TRUE(limit.reached());
}

TEST(SqliteBusyPause, IsTheShorterTheLessTimeIsLeft) {
  const auto before = BootClock::now();
  const WaitLimit limit(never, 20ms, {});
  int tries = 0;
  for (; !limit.reached(); ++tries) limit.sleep_for(1h);
  EXPECT_GE(BootClock::now() - before, 20ms);
  EXPECT_LT(tries, 100) << "16 for each halving, until 0.1 ms";
}

}  // namespace
}  // namespace holdfast::sqlite
