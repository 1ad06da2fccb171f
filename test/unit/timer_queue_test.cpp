#include "runtime/timer_queue.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <future>
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
