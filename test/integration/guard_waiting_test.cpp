// How a guard is waited for and acquired.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "integration/guard_fixture.hpp"

namespace holdfast::test {
namespace {

class GuardWaiting : public GuardFixture {};

TEST_P(GuardWaiting, AWaiterGetsTheLockAsSoonAsItIsFreed) {
  auto first = locks.lock("k");
  auto second = std::async(std::launch::async, [&] {
    return locks.lock("k", {.wait = 30s, .base_delay = 20s, .max_delay = 20s, .jitter = Jitter::none});
  });
  std::this_thread::sleep_for(50ms);
  const auto fence = first.fence();
  first.release();
  ASSERT_EQ(second.wait_for(5s), std::future_status::ready) << "woken, not polled";
  EXPECT_GT(second.get().fence(), fence);
}

TEST_P(GuardWaiting, AWaiterGetsTheLockAsSoonAsItExpires) {
  const auto detached = locks.acquire("k", {.ttl = 80ms});
  const BootTime before = BootClock::now();
  const auto guard =
      locks.lock("k", {.wait = 30s, .base_delay = 20s, .max_delay = 20s, .jitter = Jitter::none});
  EXPECT_GT(guard.fence(), detached.fence);
  EXPECT_LT(BootClock::now() - before, 10s);
}

TEST_P(GuardWaiting, ManyWaitersAllGetTheirTurnWithoutPolling) {
  std::atomic<int> done{0};
  std::vector<std::jthread> waiters;
  auto first = locks.lock("k");
  for (int i = 0; i < 20; ++i) {
    waiters.emplace_back([&] {
      const auto guard =
          locks.lock("k", {.wait = 50s, .base_delay = 40s, .max_delay = 40s, .jitter = Jitter::none});
      ++done;
    });
  }
  std::this_thread::sleep_for(50ms);
  first.release();
  EXPECT_TRUE(eventually([&] { return done == 20; }, 20s));
}

TEST_P(GuardWaiting, AWakeUpThatLedToNothingGoesToTheNextWaiter) {
  auto first = locks.lock("k", {.ttl = 10min});
  const auto wait = [&]() -> std::optional<ErrorCode> {
    try {
      const auto guard = locks.lock("k", {.wait = 10min, .base_delay = 1h, .max_delay = 1h});
      return std::nullopt;
    } catch (const Error& error) {
      return error.code();
    }
  };
  auto one = std::async(std::launch::async, wait);
  auto other = std::async(std::launch::async, wait);
  // Each has tried, begun to watch, and tried once more.
  ASSERT_TRUE(eventually([&] { return wire->calls(Operation::acquire) == 5; }));
  wire->plan(Operation::acquire, Fault::refused_auth);  // whoever is woken first
  first.release();
  ASSERT_EQ(one.wait_for(30s), std::future_status::ready);
  ASSERT_EQ(other.wait_for(30s), std::future_status::ready);
  const std::set ended{one.get(), other.get()};
  EXPECT_EQ(ended, (std::set<std::optional<ErrorCode>>{std::nullopt, ErrorCode::AuthFailed}));
}

TEST_P(GuardWaiting, TryLockMakesOneAttempt) {
  const auto guard = locks.try_lock("k");
  ASSERT_TRUE(guard);
  const auto calls = wire->calls(Operation::acquire);
  EXPECT_FALSE(locks.try_lock("k"));
  EXPECT_EQ(wire->calls(Operation::acquire), calls + 1);
}

TEST_P(GuardWaiting, GivesUpAfterItsPatience) {
  const auto held = locks.lock("k");
  const BootTime before = BootClock::now();
  try {
    (void)locks.lock("k", {.wait = 60ms});
    FAIL() << "granted twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::AcquisitionTimeout);
    EXPECT_EQ(error.key(), "k");
    EXPECT_EQ(error.message().find("\"k\": the lock is already held by "), 0U) << error.message();
  }
  EXPECT_GE(BootClock::now() - before, 60ms);
}

TEST_P(GuardWaiting, AWaitCanBeStopped) {
  const auto held = locks.lock("k");
  std::stop_source stop;
  auto waiter = std::async(std::launch::async, [&] {
    try {
      (void)locks.lock("k", {.wait = no_time_limit, .retries = no_retry_limit}, stop.get_token());
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  });
  std::this_thread::sleep_for(30ms);
  stop.request_stop();
  EXPECT_EQ(waiter.get(), ErrorCode::Aborted);
}

TEST_P(GuardWaiting, WaitingBurnsNoCpu) {
  const auto held = locks.lock("k");
  const auto cpu = [] {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  };
  const auto before = cpu();
  EXPECT_THROW((void)locks.lock("k", {.wait = 500ms}), Error);
  EXPECT_LT(cpu() - before, 100ms);
}

TEST_P(GuardWaiting, BadInputIsRefusedBeforeAnyOperation) {
  const auto code = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code([&] { (void)locks.lock(""); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.lock("\xFF"); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.lock(std::string(513, 'k')); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.lock("k", {.ttl = 0ms}); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.try_lock("k", {.ttl = 367 * 24h}); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.acquire("k", {.wait = -1s}); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.release("short"); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.extend(std::string(22, '!'), 1s); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { (void)locks.get_by_id(""); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(wire->calls(Operation::acquire), 0);
}

TEST_P(GuardWaiting, AnAcquireWhoseAnswerWasLostIsAskedAgainAndGetsTheSameLock) {
  wire->plan(Operation::acquire, Fault::answer_lost);
  const auto guard = locks.lock("k", {.ttl = 10s, .base_delay = 100ms, .jitter = Jitter::none});
  EXPECT_EQ(guard.fence().value(), 1U);
  const BootTime now = BootClock::now();  // before `remaining`, else a pause between the two would be added
  EXPECT_LE(now + guard.remaining() - wire->first_call(Operation::acquire), 10s)
      << "proven from the first send on";
  EXPECT_EQ(wire->calls(Operation::acquire), 2);
}

TEST_P(GuardWaiting, AGhostLockIsReleasedInTheBackground) {
  wire->plan(Operation::acquire, Fault::answer_lost);
  wire->plan(Operation::acquire, Fault::not_sent, 100);
  EXPECT_THROW((void)locks.lock("k", {.retries = 2, .base_delay = 1ms}), Error);
  EXPECT_TRUE(eventually([&] { return !locks.is_locked("k"); }));
}

TEST_P(GuardWaiting, AGhostLockIsReleasedThoughItsFirstReleaseFails) {
  wire->plan(Operation::acquire, Fault::answer_lost);
  wire->plan(Operation::acquire, Fault::not_sent, 100);
  wire->plan(Operation::release, Fault::not_sent);
  EXPECT_THROW((void)locks.lock("k", {.retries = 2, .base_delay = 1ms}), Error);
  EXPECT_TRUE(eventually([&] { return !locks.is_locked("k"); }));
}

TEST_P(GuardWaiting, TheLastTransientErrorIsThrownWhenPatienceEnds) {
  wire->plan(Operation::acquire, Fault::not_sent, 100);
  try {
    (void)locks.lock("k", {.retries = 3, .base_delay = 1ms});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable);
  }
  EXPECT_EQ(wire->calls(Operation::acquire), 4);
}

INSTANTIATE_TEST_SUITE_P(Facades, GuardWaiting, testing::ValuesIn(facades()), facade_name);

}  // namespace
}  // namespace holdfast::test
