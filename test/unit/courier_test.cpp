// What is handed over to a thread of its own.

#include "runtime/courier.hpp"

#include <gtest/gtest.h>

namespace holdfast::runtime {
namespace {

TEST(Courier, AFlushBeforeTheFirstItemDoesNotCostThatItem) {
  for (int round = 0; round < 500; ++round) {
    int received = 0;
    std::size_t dropped = 0;
    Courier<int> courier(10, [&](int& item, std::size_t dropped_before) {
      received += item;
      dropped += dropped_before;
    });
    courier.flush();
    ASSERT_TRUE(courier.hand_over(7)) << "in round " << round;
    courier.flush();
    ASSERT_EQ(received, 7);
    ASSERT_EQ(dropped, 0U);
  }
}

}  // namespace
}  // namespace holdfast::runtime
