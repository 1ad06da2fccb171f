// The coroutine that every policy is written as, without an engine.

#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/memory.hpp>
#include <thread>

#include "flow/flow.hpp"

namespace holdfast::flow {
namespace {

using namespace std::chrono_literals;

Op<int> answer(int value) {
  co_return value;
}

Op<int> failing() {
  throw Error(ErrorCode::Internal, "as planned");
  co_return 0;
}

Op<int> sum_of(int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    auto one = answer(1);
    sum += (co_await std::move(one)).value_or_throw();
  }
  co_return sum;
}

TEST(Op, EndsBeforeRunReturns) {
  EXPECT_EQ(*Op<int>::run(answer(3)), 3);
}

TEST(Op, AThrownErrorIsItsResult) {
  const auto result = Op<int>::run(failing());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::Internal);
}

TEST(Op, OneThatAwaitsManyDoesNotDeepenTheStack) {
  EXPECT_EQ(*Op<int>::run(sum_of(1'000'000)), 1'000'000);
}

TEST(Op, AStartedOneCompletesOnce) {
  int calls = 0;
  Op<int>::start(answer(4), [&](Result<int> result) {
    ++calls;
    EXPECT_EQ(*result, 4);
  });
  EXPECT_EQ(calls, 1);
}

Op<int> sleeps(Flow flow, int times, std::stop_token stop) {
  int slept = 0;
  for (; slept < times && !stop.stop_requested(); ++slept) {
    (void)co_await flow.sleep_until(BootClock::now() + 1ms, stop);
  }
  co_return slept;
}

Op<int> outer(Flow flow, int times, std::stop_token stop) {
  auto inner = sleeps(flow, times, std::move(stop));
  co_return co_await std::move(inner);
}

Result<int> completed(const std::function<Op<int>(Flow)>& make) {
  Slot<int> slot;
  Op<int>::start(make(Flow::completing(std::make_shared<Background>())),
                 [&slot](Result<int> result) { Done<int>::into(slot)(std::move(result)); });
  slot.completion.wait();
  return *std::move(slot.result);
}

TEST(Flow, SleepsWithOrWithoutAThread) {
  EXPECT_EQ(*Op<int>::run(outer(Flow::blocking(), 5, {})), 5);
  EXPECT_EQ(*completed([](Flow flow) { return outer(std::move(flow), 5, {}); }), 5);
}

TEST(Flow, AStopRequestEndsASleepThatHasNoEnd) {
  for (int round = 0; round < 200; ++round) {
    std::stop_source stop;
    Slot<int> slot;
    const auto sleep = [](Flow flow, std::stop_token token) -> Op<int> {
      (void)co_await flow.sleep_until(never, token);
      co_return 1;
    };
    Op<int>::start(sleep(Flow::completing(std::make_shared<Background>()), stop.get_token()),
                   [&slot](Result<int> result) { Done<int>::into(slot)(std::move(result)); });
    std::thread stopper([&] { stop.request_stop(); });
    slot.completion.wait();
    stopper.join();
    EXPECT_EQ(**slot.result, 1);
  }
}

/// 100 000 operations of an engine that completes inline, each begun by the end of the one before.
Op<int> many_steps(Flow flow, std::shared_ptr<LockBackend> backend) {
  int unlocked = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto key = LockKey::parse("k").value_or_throw();
    const auto locked = co_await flow.step<bool>(
        backend, [&](Done<bool> done) { backend->is_locked({.key = key}, {}, std::move(done)); });
    unlocked += *locked ? 0 : 1;
  }
  co_return unlocked;
}

TEST(Flow, StepsThatCompleteInlineDoNotDeepenTheStack) {
  const auto backend = make_memory_lock_backend();
  EXPECT_EQ(*Op<int>::run(many_steps(Flow::blocking(), backend)), 100'000);
  EXPECT_EQ(*completed([&](Flow flow) { return many_steps(std::move(flow), backend); }), 100'000);
}

}  // namespace
}  // namespace holdfast::flow
