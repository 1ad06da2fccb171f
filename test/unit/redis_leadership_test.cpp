// Which thread does the I/O: one that waits, else a guest, else one in the background.

#include "engine/redis/conn/leadership.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <thread>

#include "engine/redis/conn/unattended_calls.hpp"

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

TEST(RedisLeadership, AThreadThatWaitsLeadsIfNoOtherDoes) {
  Led leadership;
  CountingFollower waiter;
  bool led = false;
  leadership.step(waiter, [&] { led = leadership.led_by_this_thread(); }, [] { FAIL() << "sleeps"; });
  EXPECT_TRUE(led);
  EXPECT_FALSE(leadership.led());
}

TEST(RedisLeadership, AThreadThatWaitsFollowsWhileAnotherLeads) {
  Led leadership;
  CountingFollower waiter;
  bool slept = false;
  leadership.lead([&] {
    std::thread([&] {
      EXPECT_TRUE(leadership.led());
      EXPECT_FALSE(leadership.led_by_this_thread());
      leadership.step(
          waiter, [] { FAIL() << "a second leader"; }, [&] { slept = leadership.has_followers(); });
    }).join();
  });
  EXPECT_TRUE(slept);
  EXPECT_FALSE(leadership.has_followers());
}

TEST(RedisLeadership, ATurnInsideATurnDoesNotEndIt) {
  Led leadership;
  CountingFollower waiter;
  leadership.lead([&] {
    leadership.step(
        waiter, [&] { EXPECT_TRUE(leadership.led_by_this_thread()); }, [] { FAIL() << "waits for itself"; });
    EXPECT_TRUE(leadership.led_by_this_thread());
  });
  EXPECT_FALSE(leadership.led());
}

/// A thread that follows until it is let go.
class Sleeper {
 public:
  /// Requires that this thread leads.
  explicit Sleeper(Led& leadership)
      : thread_([this, &leadership] {
          leadership.step(
              follower, [] { FAIL() << "a second leader"; },
              [this] {
                asleep_.count_down();
                go_.wait();
              });
        }) {
    asleep_.wait();
  }
  void leave() {
    go_.count_down();
    thread_.join();
  }
  CountingFollower follower;

 private:
  std::latch asleep_{1};
  std::latch go_{1};
  std::thread thread_;
};

TEST(RedisLeadership, TheFirstFollowerIsNudgedAndPassesTheTurnOn) {
  Led leadership;
  std::optional<Sleeper> first;
  std::optional<Sleeper> second;
  leadership.lead([&] {
    first.emplace(leadership);
    second.emplace(leadership);
    EXPECT_TRUE(leadership.appoint());
    EXPECT_EQ(first->follower.nudged, 0) << "there is a leader";
  });
  EXPECT_TRUE(leadership.appoint());
  EXPECT_EQ(first->follower.nudged, 1);
  EXPECT_EQ(second->follower.nudged, 0);
  first->leave();
  EXPECT_TRUE(leadership.appoint());
  EXPECT_EQ(second->follower.nudged, 1);
  second->leave();
  EXPECT_FALSE(leadership.appoint());
}

struct KindOfCall final : Call {
  KindOfCall(bool is_awaited, bool is_guests) {
    awaited = is_awaited;
    by_idle_io = is_guests;
  }
  void finish(std::unique_ptr<Call>, Result<Reply>) override {}
};
const KindOfCall awaited_call(true, false);
const KindOfCall guests_call(false, true);
const KindOfCall other_call(false, false);

using Leader = UnattendedCalls::Leader;

TEST(RedisUnattendedCalls, ACallWithAWaitingThreadNeedsNoOther) {
  UnattendedCalls calls;
  calls.queued(awaited_call);
  EXPECT_FALSE(calls.any());
  EXPECT_EQ(calls.appoint(), Leader::none);
}

TEST(RedisUnattendedCalls, TheBackgroundThreadIsStartedOnce) {
  UnattendedCalls calls;
  calls.queued(other_call);
  EXPECT_EQ(calls.appoint(), Leader::background);
  EXPECT_EQ(calls.appoint(), Leader::none) << "it is on its way";
  calls.background_arrived();
  EXPECT_EQ(calls.appoint(), Leader::background) << "it left, and the call is still pending";
  calls.background_arrived();
  calls.completed(false, false);
  EXPECT_EQ(calls.appoint(), Leader::none);
}

TEST(RedisUnattendedCalls, AGuestThatComesIsWaitedFor) {
  UnattendedCalls calls;
  calls.queued(guests_call);
  calls.guest_comes();
  EXPECT_TRUE(calls.any_of_guests());
  EXPECT_EQ(calls.appoint(), Leader::none);
  calls.guest_is_not_coming();
  EXPECT_EQ(calls.appoint(), Leader::background);
}

TEST(RedisUnattendedCalls, AGuestThatStandsByIsWokenOnce) {
  UnattendedCalls calls;
  calls.queued(guests_call);
  calls.guest_stands_by();
  EXPECT_EQ(calls.appoint(), Leader::guest);
  EXPECT_EQ(calls.appoint(), Leader::none) << "it is on its way";
  calls.guest_is_not_coming();
  EXPECT_EQ(calls.appoint(), Leader::background);
}

TEST(RedisUnattendedCalls, AGuestLeadsOnlyForCallsOfGuests) {
  for (const bool stands_by : {false, true}) {
    UnattendedCalls calls;
    calls.queued(guests_call);
    calls.queued(other_call);
    stands_by ? calls.guest_stands_by() : calls.guest_comes();
    EXPECT_TRUE(calls.any_of_others());
    EXPECT_EQ(calls.appoint(), Leader::background);
    calls.background_arrived();
    calls.completed(false, false);
    EXPECT_FALSE(calls.any_of_others());
    EXPECT_EQ(calls.appoint(), stands_by ? Leader::guest : Leader::none);
  }
}

}  // namespace
}  // namespace holdfast::redis
