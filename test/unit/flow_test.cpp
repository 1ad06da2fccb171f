// The coroutine that every policy is written as, without an engine.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <holdfast/memory.hpp>
#include <latch>
#include <set>
#include <thread>

#include "runtime/flow.hpp"
#include "support/eventually.hpp"
#include "support/hooked_backend.hpp"

namespace holdfast::runtime {
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
  Op<int>::start(make(Flow::completing(std::make_shared<Runtime>())),
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
    Op<int>::start(sleep(Flow::completing(std::make_shared<Runtime>()), stop.get_token()),
                   [&slot](Result<int> result) { Done<int>::into(slot)(std::move(result)); });
    std::thread stopper([&] { stop.request_stop(); });
    slot.completion.wait();
    stopper.join();
    EXPECT_EQ(**slot.result, 1);
  }
}

class ThreadOf final : public Timed {
 public:
  BootTime on_time(BootTime) override {
    id.set_value(std::this_thread::get_id());
    return never;
  }
  std::promise<std::thread::id> id;
};

/// Where a sleep, or a wait for a thread, has ended there may be user code next.
/// As that of an engine that cannot start the thread which would complete it.
class WatchWithoutAThread final : public Watch {
 public:
  void wait(BootTime, BootTime, std::stop_token, Done<bool> woken) override {
    woken(Error(ErrorCode::Internal, "no thread"));
  }
  void pass_on() noexcept override {}
};

Op<bool> wait_for(Flow flow, std::shared_ptr<Watch> watch, BootTime look_again_at, std::stop_token stop) {
  co_return co_await flow.wait(watch.get(), look_again_at, never, std::move(stop));
}

TEST(Flow, AWaitThatNoThreadCanWakeLooksAgainByTheClock) {
  const auto runtime = std::make_shared<Runtime>();
  const auto watch = std::make_shared<WatchWithoutAThread>();
  for (const std::chrono::milliseconds look_again_in :
       {std::chrono::milliseconds(50), std::chrono::milliseconds(1h)}) {
    const BootTime begun = BootClock::now();
    std::promise<bool> woken;
    Op<bool>::start(wait_for(Flow::completing(runtime), watch, begun + look_again_in, {}),
                    [&](Result<bool> answer) { woken.set_value(*answer); });
    auto future = woken.get_future();
    EXPECT_EQ(future.wait_for(0s), std::future_status::timeout) << "neither here nor at once";
    ASSERT_EQ(future.wait_for(10s), std::future_status::ready);
    EXPECT_FALSE(future.get());
    EXPECT_GE(BootClock::now() - begun, 50ms);
  }
}

TEST(Flow, NothingGoesOnOnTheTimersThread) {
  const auto threads = std::make_shared<Runtime>();
  const auto timer = std::make_shared<ThreadOf>();
  threads->timer.schedule(*timer, BootTime());
  std::promise<std::thread::id> went_on;
  Op<int>::start(sleeps(Flow::completing(threads), 1, {}),
                 [&](const Result<int>&) { went_on.set_value(std::this_thread::get_id()); });
  EXPECT_NE(went_on.get_future().get(), timer->id.get_future().get());
}

TEST(Flow, UserCodeThatBlocksAfterASleepHoldsUpNoOtherSleep) {
  const auto threads = std::make_shared<Runtime>();
  std::latch blocked(1), go(1);
  const auto then_blocks = [&](Flow flow) -> Op<int> {
    (void)co_await flow.sleep_until(BootClock::now() + 1ms, {});
    co_await flow.leave_io_thread();
    blocked.count_down();
    go.wait();
    co_return 1;
  };
  Slot<int> first, second;
  Op<int>::start(then_blocks(Flow::completing(threads)),
                 [&](Result<int> result) { Done<int>::into(first)(std::move(result)); });
  blocked.wait();
  Op<int>::start(sleeps(Flow::completing(threads), 3, {}),
                 [&](Result<int> result) { Done<int>::into(second)(std::move(result)); });
  second.completion.wait();
  EXPECT_FALSE(first.completion.finished());
  go.count_down();
  first.completion.wait();
}

TEST(Flow, ThousandsOfSleepsThatEndTogetherEndOneAfterAnotherOnFewThreads) {
  const auto threads = std::make_shared<Runtime>();
  std::stop_source stop;
  std::set<std::thread::id> ended_on;
  std::atomic<int> at_once = 0;
  std::latch ended(5000);
  for (int i = 0; i < 5000; ++i) {
    const auto sleep = [](Flow flow, std::stop_token token) -> Op<int> {
      (void)co_await flow.sleep_until(never, token);
      co_return 1;
    };
    Op<int>::start(sleep(Flow::completing(threads), stop.get_token()), [&](const Result<int>&) {
      EXPECT_EQ(++at_once, 1);
      ended_on.insert(std::this_thread::get_id());
      --at_once;
      ended.count_down();
    });
  }
  stop.request_stop();
  ended.wait();
  EXPECT_LE(ended_on.size(), 5U) << "one may not be idle yet when it is needed again";
}

/// 100 000 operations of an engine that completes inline, each begun by the end of the one before.
Op<int> many_steps(Flow flow, std::shared_ptr<LockBackend> backend) {
  int unlocked = 0;
  for (int i = 0; i < 100'000; ++i) {
    IsLockedRequest request{.key = LockKey::parse("k").value_or_throw()};
    const auto locked = co_await flow.ask(backend, std::move(request), std::stop_token());
    unlocked += *locked ? 0 : 1;
  }
  co_return unlocked;
}

TEST(Flow, StepsThatCompleteInlineDoNotDeepenTheStack) {
  const auto backend = make_memory_lock_backend();
  EXPECT_EQ(*Op<int>::run(many_steps(Flow::blocking(), backend)), 100'000);
  EXPECT_EQ(*completed([&](Flow flow) { return many_steps(std::move(flow), backend); }), 100'000);
}

Op<bool> one_step(Flow flow, std::shared_ptr<LockBackend> backend, std::stop_token stop, BootTime deadline) {
  IsLockedRequest request{.key = LockKey::parse("k").value_or_throw(), .deadline = deadline};
  co_return co_await flow.ask(backend, std::move(request), std::move(stop));
}

/// As when one thread reads the answer before another is back from asking.
TEST(Flow, AStepThatEndsBeforeItsCallReturnsDoesNotTakeTheEngineFromUnderTheCall) {
  std::weak_ptr<LockBackend> used;
  std::atomic<bool> ended = false, engine_was_there = false;
  std::shared_ptr<LockBackend> engine = std::make_shared<test::HookedBackend>(
      make_memory_lock_backend(), [&](const std::function<void()>& send) {
        // Copies: what the hook has captured ends with the engine.
        const auto watched = used;
        auto& has_ended = ended;
        auto& was_there = engine_was_there;
        std::thread(send).join();
        was_there = has_ended && !watched.expired();
      });
  used = engine;
  Op<bool>::start(one_step(Flow::completing(std::make_shared<Runtime>()), std::move(engine), {}, never),
                  [&](const Result<bool>&) { ended = true; });
  EXPECT_TRUE(engine_was_there);
  EXPECT_TRUE(used.expired()) << "the step was its last owner";
}

/// The last to hold the threads is what nobody waits for any more.
TEST(Flow, AStepThatFindsNoThreadIsStoppedOrTimedOutAndLeavesNothing) {
  std::latch go(1);
  std::atomic<int> came = 0, ended = 0;
  auto threads = std::make_shared<Runtime>();
  const std::weak_ptr<Runtime> kept = threads;
  std::shared_ptr<LockBackend> engine = std::make_shared<test::HookedBackend>(
      make_memory_lock_backend(),
      [&](const std::function<void()>& send) {
        ++came;
        go.wait();
        send();
      },
      test::HookedBackend::Options{.blocks = true});
  const std::weak_ptr<LockBackend> used = engine;
  const auto start = [&](std::stop_token stop, BootTime deadline, Done<bool> done) {
    Op<bool>::start(one_step(Flow::completing(threads), engine, std::move(stop), deadline), std::move(done));
  };
  for (int i = 0; i < 4; ++i) start({}, never, [&](const Result<bool>&) { ++ended; });
  ASSERT_TRUE(test::eventually([&] { return came == 4; }));

  struct Answer {
    std::optional<ErrorCode> error;
    std::atomic<bool> came = false;
  };
  std::array<Answer, 4> answers;
  const auto answer = [&](std::size_t i) {
    return [&to = answers[i]](const Result<bool>& result) {
      if (!result) to.error = result.error().code();
      to.came = true;
    };
  };
  std::stop_source stopped_early, stopped_late;
  stopped_early.request_stop();
  start(stopped_early.get_token(), never, answer(0));
  start(stopped_late.get_token(), never, answer(1));
  start({}, BootClock::now(), answer(2));
  start(stopped_late.get_token(), BootClock::now() + 1ms, answer(3));
  EXPECT_TRUE(test::eventually([&] { return answers[0].came && answers[2].came && answers[3].came; }));
  EXPECT_FALSE(answers[1].came);
  stopped_late.request_stop();
  EXPECT_TRUE(test::eventually([&] { return answers[1].came.load(); }));
  EXPECT_EQ(answers[0].error, ErrorCode::Aborted);
  EXPECT_EQ(answers[1].error, ErrorCode::Aborted);
  EXPECT_EQ(answers[2].error, ErrorCode::NetworkTimeout);
  EXPECT_EQ(answers[3].error, ErrorCode::NetworkTimeout);

  threads.reset();
  engine.reset();
  EXPECT_EQ(ended, 0);
  go.count_down();
  EXPECT_TRUE(test::eventually([&] { return ended == 4 && kept.expired() && used.expired(); }));
  EXPECT_EQ(came, 4) << "the others never reached the engine";
}

}  // namespace
}  // namespace holdfast::runtime
