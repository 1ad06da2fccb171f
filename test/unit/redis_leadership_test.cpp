// Who does the I/O: the first who waits, then the next, and no thread twice.

#include "engine/redis/conn/leadership.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace holdfast::redis {
namespace {

struct CountingFollower {
  int nudged = 0;
  void nudge() { ++nudged; }
};
using Led = Leadership<CountingFollower, &CountingFollower::nudge>;

TEST(RedisLeadership, WithoutAFollowerTheOwnerMustFindAThread) {
  Led leadership;
  EXPECT_FALSE(leadership.appoint());
  EXPECT_FALSE(leadership.led());
}

TEST(RedisLeadership, AFollowerLeadsIfNoOtherThreadDoes) {
  Led leadership;
  CountingFollower waiter;
  Led::Following following(leadership, waiter);
  bool led = false;
  following.step([&] { led = leadership.led_by_this_thread(); }, [] { FAIL() << "sleeps"; });
  EXPECT_TRUE(led);
  EXPECT_FALSE(leadership.led());
}

TEST(RedisLeadership, AFollowerSleepsWhileAnotherThreadLeads) {
  Led leadership;
  CountingFollower waiter;
  bool slept = false;
  leadership.lead([&] {
    std::thread([&] {
      EXPECT_TRUE(leadership.led());
      EXPECT_FALSE(leadership.led_by_this_thread());
      Led::Following following(leadership, waiter);
      following.step([] { FAIL() << "a second leader"; }, [&] { slept = true; });
    }).join();
  });
  EXPECT_TRUE(slept);
}

TEST(RedisLeadership, ATurnInsideATurnDoesNotEndIt) {
  Led leadership;
  CountingFollower waiter;
  leadership.lead([&] {
    Led::Following following(leadership, waiter);
    following.step([&] { EXPECT_TRUE(leadership.led_by_this_thread()); },
                   [] { FAIL() << "waits for itself"; });
    EXPECT_TRUE(leadership.led_by_this_thread());
  });
  EXPECT_FALSE(leadership.led());
}

TEST(RedisLeadership, TheFirstFollowerIsNudgedAndPassesTheTurnOn) {
  Led leadership;
  CountingFollower first;
  CountingFollower second;
  {
    const Led::Following one(leadership, first);
    const Led::Following other(leadership, second);
    leadership.lead([&] { EXPECT_TRUE(leadership.appoint()); });
    EXPECT_EQ(first.nudged, 0) << "there was a leader";
    EXPECT_TRUE(leadership.appoint());
    EXPECT_EQ(first.nudged, 1);
    EXPECT_EQ(second.nudged, 0);
  }
  const Led::Following other(leadership, second);
  EXPECT_TRUE(leadership.appoint());
  EXPECT_EQ(first.nudged, 1) << "it has left";
  EXPECT_EQ(second.nudged, 1);
}

}  // namespace
}  // namespace holdfast::redis
