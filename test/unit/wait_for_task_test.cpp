#include "tasks/wait_for_task.hpp"

#include <gtest/gtest.h>

namespace {

using holdfast::tasks::look_again_after;
using namespace std::chrono_literals;

TEST(WaitForTask, AFewWaitersReadTheirTasksEverySecondOrFiveTimesASecondWithoutWakeUps) {
  for (const std::size_t waiters : {0U, 1U, 40U}) {
    EXPECT_EQ(look_again_after(waiters, true, 0), 1s) << waiters;
    EXPECT_EQ(look_again_after(waiters, false, 0), 200ms) << waiters;
  }
  EXPECT_EQ(look_again_after(200, true, 0), 1s);
}

TEST(WaitForTask, ManyWaitersTogetherReadAtMostTwoHundredTasksASecond) {
  EXPECT_EQ(look_again_after(1000, true, 0), 5s);
  EXPECT_EQ(look_again_after(1000, false, 0), 5s);
  EXPECT_EQ(look_again_after(6000, true, 0), 30s);
}

TEST(WaitForTask, AnyNumberOfWaitersReadsWithinHalfAMinute) {
  EXPECT_EQ(look_again_after(10'000'000, true, 0), 30s);
  EXPECT_EQ(look_again_after(static_cast<std::size_t>(-1), false, 0), 30s);
}

TEST(WaitForTask, WaitersThatBeginTogetherReadAtDifferentTimesAndNeverLater) {
  EXPECT_EQ(look_again_after(1, true, 0.5), 875ms);
  EXPECT_GT(look_again_after(1, true, 0.999), 750ms);
  EXPECT_EQ(look_again_after(1000, true, 0.5), 4375ms);
}

}  // namespace
