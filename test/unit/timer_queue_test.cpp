#include "runtime/timer_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <random>
#include <string>
#include <vector>

namespace holdfast::runtime {
namespace {

class Called final : public Timed {
 public:
  explicit Called(std::function<void()> call) : call_(std::move(call)) {}
  BootTime on_time(BootTime) override {
    call_();
    return never;
  }

 private:
  const std::function<void()> call_;
};

TEST(TimerQueue, WhatFallsDueGoesBeforeTheJobsThatAreLeft) {
  TimerQueue timer;
  std::string order;
  std::promise<void> ended;
  const auto second = std::make_shared<Called>([&] { order += "due "; });
  const auto first = std::make_shared<Called>([&] {
    timer.after_due([&] {
      order += "a ";
      timer.schedule(*second, BootClock::now());
    });
    timer.after_due([&] { order += "b "; });
    timer.after_due([&] { ended.set_value(); });
    order += "first ";
  });
  timer.schedule(*first, BootTime());
  ended.get_future().wait();
  EXPECT_EQ(order, "first a due b ");
}

TEST(TimerQueue, CallsInTheOrderOfTheTimesWhateverWasScheduledAnewOrCancelled) {
  TimerQueue timer;
  std::promise<void> all_are_scheduled, ended;
  const auto holds_the_thread = std::make_shared<Called>([&] { all_are_scheduled.get_future().wait(); });
  timer.schedule(*holds_the_thread, BootTime());

  constexpr int count = 300;
  std::mt19937 random(7);
  std::vector<int> times(count), called, expected;
  std::vector<std::shared_ptr<Called>> targets;
  for (int i = 0; i < count; ++i) {
    targets.push_back(
        std::make_shared<Called>([&, i] { called.push_back(times[static_cast<std::size_t>(i)]); }));
  }
  for (int step = 0; step < 4 * count; ++step) {  // all times have passed
    const auto at = random() % count;
    const int time = step % 3 == 2 ? 0 : static_cast<int>(1 + random() % 1000);
    times[at] = time;
    if (time == 0) {
      timer.cancel(*targets[at]);
    } else {
      timer.schedule(*targets[at], BootTime() + std::chrono::nanoseconds(time));
    }
  }
  std::ranges::copy_if(times, std::back_inserter(expected), [](int time) { return time != 0; });
  std::ranges::sort(expected);
  const auto last = std::make_shared<Called>([&] { ended.set_value(); });
  timer.schedule(*last, BootTime() + std::chrono::nanoseconds(2000));
  all_are_scheduled.set_value();
  ended.get_future().wait();
  EXPECT_EQ(called, expected);
}

TEST(TimerQueue, AnIdleThreadMayDoSomethingElseUntilItIsCalled) {
  std::vector<int> descriptors;
  std::promise<void> called;
  {
    TimerQueue timer([&](int descriptor) { descriptors.push_back(descriptor); });
    const auto once = std::make_shared<Called>([&] { called.set_value(); });
    timer.schedule(*once, BootTime());
    called.get_future().wait();
  }
  ASSERT_GE(descriptors.size(), 2U);
  EXPECT_GE(descriptors.front(), 0);
  EXPECT_EQ(descriptors.back(), -1) << "the thread does not come back";
}

TEST(TimerQueue, ManyJobsLeaveTurnsToWhatElseTheThreadDoes) {
  int turns = 0;
  std::promise<int> turns_taken;
  TimerQueue timer([&](int) { ++turns; });
  const auto once = std::make_shared<Called>([&] {
    turns = 0;
    for (int i = 0; i < 1000; ++i) timer.after_due([] {});
    timer.after_due([&] { turns_taken.set_value(turns); });
  });
  timer.schedule(*once, BootTime());
  EXPECT_GE(turns_taken.get_future().get(), 10);
}

TEST(TimerQueue, AJobMayDropTheLastOwnerOfItsQueue) {
  auto timer = std::make_unique<TimerQueue>();
  std::promise<void> ended;
  auto& queue = *timer;
  const auto first = std::make_shared<Called>([&] {
    queue.after_due([&] {
      timer.reset();
      ended.set_value();
    });
  });
  queue.schedule(*first, BootTime());
  ended.get_future().wait();
}

}  // namespace
}  // namespace holdfast::runtime
