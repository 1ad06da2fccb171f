// What is handed over to a thread of its own.

#include "runtime/delivery_queue.hpp"

#include <gtest/gtest.h>

namespace holdfast::runtime {
namespace {

TEST(DeliveryQueue, AFlushBeforeTheFirstItemDoesNotCostThatItem) {
  for (int round = 0; round < 500; ++round) {
    int received = 0;
    std::size_t dropped = 0;
    DeliveryQueue<int> queue(10, [&](int& item, std::size_t dropped_before) {
      received += item;
      dropped += dropped_before;
    });
    queue.flush();
    ASSERT_TRUE(queue.push(7)) << "in round " << round;
    queue.flush();
    ASSERT_EQ(received, 7);
    ASSERT_EQ(dropped, 0U);
  }
}

}  // namespace
}  // namespace holdfast::runtime
