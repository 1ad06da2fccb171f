// When a guard is lost, and who is told how.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "integration/guard_fixture.hpp"
#include "support/no_new_threads.hpp"

namespace holdfast::test {
namespace {

class GuardLoss : public GuardFixture {};
/// Callbacks that block or throw: each on a thread of its own, not an executor's.
class GuardLossCallbacks : public GuardFixture {};

TEST_P(GuardLoss, WithoutRenewalTheHolderIsToldBeforeItsProofEnds) {
  wire->plan(Operation::extend, Fault::not_sent, 10'000);
  auto guard = locks.lock("k", {.ttl = 600ms, .notice = 0ms});
  const BootTime proof_end = BootClock::now() + guard.remaining();
  std::promise<std::pair<LossReason, BootTime>> told;
  guard.on_lost([&](LossReason reason) { told.set_value({reason, BootClock::now()}); });
  std::atomic<bool> token_first{false};
  const auto [reason, at] = told.get_future().get();
  token_first = guard.lost().stop_requested();
  EXPECT_EQ(reason, LossReason::unproven);
  EXPECT_TRUE(token_first);
  EXPECT_TRUE(eventually([&] { return !guard.still_held(); }));
  EXPECT_EQ(guard.remaining(), 0ns);
  // The signal is due 6 ms before the proof ends; a loaded machine may be late in running the thread.
  EXPECT_LT(at - proof_end, 50ms);
  EXPECT_GT(wire->calls(Operation::extend), 5);
}

TEST_P(GuardLoss, ALockTakenAwayIsNoticedAtTheNextRenewal) {
  auto guard = locks.lock("k", {.ttl = 150ms});
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::gone);
  EXPECT_FALSE(guard.still_held()) << "there is nothing to be proven";
  EXPECT_FALSE(locks.is_locked("k")) << "never created again";
}

TEST_P(GuardLoss, MaxHoldEndsTheGuardThoughItsLeaseIsRenewed) {
  auto guard = locks.lock("k", {.ttl = 600ms, .max_hold = 900ms});
  EXPECT_TRUE(eventually([&] { return wire->calls(Operation::extend) >= 1; }));
  EXPECT_TRUE(guard.still_held());
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::max_hold);
  guard.release();
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_P(GuardLoss, ReleasingIsNotALoss) {
  std::atomic<int> losses{0};
  std::stop_token token;
  {
    auto guard = locks.lock("k", {.ttl = 60ms, .auto_renew = false});
    guard.on_lost([&](LossReason) { ++losses; });
    token = guard.lost();
  }
  std::this_thread::sleep_for(120ms);
  EXPECT_EQ(losses, 0);
  EXPECT_FALSE(token.stop_requested());
}

TEST_P(GuardLoss, ALossCallbackSetTooLateRunsAtOnceAndOnlyOnce) {
  auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  std::atomic<int> calls{0};
  guard.on_lost([&](LossReason) { ++calls; });
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 1);
}

TEST_P(GuardLossCallbacks, ABlockedLossCallbackHoldsUpNeitherRenewalsNorOtherLosses) {
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  auto first = locks.lock("a", {.ttl = 30ms, .auto_renew = false});
  std::atomic<bool> entered{false};
  first.on_lost([&](LossReason) {
    entered = true;
    blocked.wait();
  });
  EXPECT_TRUE(eventually([&] { return entered.load(); }));

  const auto renewed = locks.lock("b", {.ttl = 900ms});
  auto second = locks.lock("c", {.ttl = 30ms, .auto_renew = false});
  EXPECT_TRUE(eventually([&] { return second.lost().stop_requested(); }));
  EXPECT_TRUE(eventually([&] { return wire->calls(Operation::extend) >= 2; }));
  EXPECT_TRUE(renewed.still_held());
  unblock.set_value();
}

TEST_P(GuardLoss, AnEngineThatHangsDoesNotKeepAHolderFromBeingTold) {
  wire->plan(Operation::extend, Fault::never_answered, 100);
  const auto hanging = locks.lock("a", {.ttl = 3s});
  ASSERT_TRUE(eventually([&] { return wire->calls(Operation::extend) == 1; }));
  const auto other = locks.lock("b", {.ttl = 100ms, .auto_renew = false});
  EXPECT_TRUE(eventually([&] { return other.lost().stop_requested(); }, 1500ms)) << "while the renewal hangs";
  EXPECT_TRUE(eventually([&] { return hanging.lost().stop_requested(); }));
}

TEST_P(GuardLoss, AGuardCanBeDestroyedInItsOwnLossCallback) {
  auto guard = std::make_shared<TestedGuard>(locks.lock("k", {.ttl = 30ms, .auto_renew = false}));
  std::promise<void> done;
  auto* const raw = guard.get();
  raw->on_lost([&done, held = std::move(guard)](LossReason) mutable {
    held.reset();
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(5s), std::future_status::ready);
}

TEST_P(GuardLoss, TheLastOwnerOfTheEngineMayBeALossCallback) {
  std::promise<void> done;
  auto holder = std::make_shared<std::pair<std::optional<TestedLocks>, TestedGuard>>();
  holder->first.emplace(GetParam(), std::make_shared<FaultyBackend>(make_memory_lock_backend()));
  holder->second = holder->first->lock("k", {.ttl = 30ms, .auto_renew = false});
  TestedGuard& guard = holder->second;
  guard.on_lost([&done, kept = std::move(holder)](LossReason) mutable {
    kept->first.reset();
    kept->second = TestedGuard();
    kept.reset();
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(5s), std::future_status::ready);
}

TEST_P(GuardLossCallbacks, TheDestructorWaitsForALossCallbackThatRuns) {
  std::atomic<bool> entered{false}, left{false};
  {
    auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
    guard.on_lost([&](LossReason) {
      entered = true;
      std::this_thread::sleep_for(100ms);
      left = true;
    });
    EXPECT_TRUE(eventually([&] { return entered.load(); }));
  }
  EXPECT_TRUE(left);
}

TEST_P(GuardLossCallbacks, TheDestructorWaitsForEveryLossCallbackThatRuns) {
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  std::atomic<int> entered{0}, left{0};
  auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  guard.on_lost([&](LossReason) {
    ++entered;
    ++left;
  });
  EXPECT_TRUE(eventually([&] { return left == 1; }));
  guard.on_lost([&](LossReason) {
    ++entered;
    blocked.wait();
    ++left;
  });
  EXPECT_TRUE(eventually([&] { return entered == 2; }));
  guard.on_lost([&](LossReason) {
    ++entered;
    ++left;
  });
  EXPECT_TRUE(eventually([&] { return left == 2; }));
  std::jthread unblocker([&] {
    std::this_thread::sleep_for(50ms);
    unblock.set_value();
  });
  guard.release();
  EXPECT_EQ(left, 3);
}

TEST_P(GuardLossCallbacks, TheDisposeTimeoutBoundsTheWaitForALossCallbackToo) {
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  std::atomic<bool> entered{false};
  const BootTime before = BootClock::now();
  {
    auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false, .dispose_timeout = 50ms});
    guard.on_lost([&, blocked](LossReason) {
      entered = true;
      blocked.wait();
    });
    EXPECT_TRUE(eventually([&] { return entered.load(); }));
  }
  EXPECT_LT(BootClock::now() - before, 10s);
  unblock.set_value();
}

TEST_P(GuardLossCallbacks, ManyBlockedLossCallbacksDoNotHoldUpTheNextLoss) {
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  std::vector<TestedGuard> guards;
  std::atomic<int> entered{0};
  for (int i = 0; i < 100; ++i) {
    guards.push_back(locks.lock("k" + std::to_string(i), {.ttl = 50ms, .auto_renew = false}));
    guards.back().on_lost([&, blocked](LossReason) {
      ++entered;
      blocked.wait();
    });
  }
  EXPECT_TRUE(eventually([&] { return entered == 100; }));
  unblock.set_value();
}

TEST_P(GuardLoss, ACallbackMayUseTheGuardWhileItIsReplaced) {
  auto guard = locks.lock("k");
  const auto touches_guard_when_destroyed = std::shared_ptr<int>(new int, [&](int* p) {
    (void)guard.remaining();
    delete p;
  });
  guard.on_lost([kept = touches_guard_when_destroyed](LossReason) {});
  guard.on_release_error([kept = touches_guard_when_destroyed](const Error&) {});
  guard.on_lost(nullptr);
  guard.on_release_error(nullptr);
  EXPECT_EQ(touches_guard_when_destroyed.use_count(), 1);
}

TEST_P(GuardLoss, WithoutAThreadToWatchOverItThereIsNoGuardAndTheNextTryWorks) {
  {
    const NoNewThreads exhausted;
    try {
      (void)locks.lock("k");
      FAIL() << "a guard that nobody watches over";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Internal);
    }
  }
  EXPECT_FALSE(locks.is_locked("k"));
  const auto guard = locks.lock("k", {.ttl = 50ms, .auto_renew = false});
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
}

TEST_P(GuardLossCallbacks, WhereNoThreadIsLeftABlockedCallbackHoldsUpNeitherRenewalsNorLosses) {
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  std::atomic<bool> first_told{false}, second_told{false};
  auto first = locks.lock("a", {.ttl = 60ms, .auto_renew = false});
  auto second = locks.lock("b", {.ttl = 120ms, .auto_renew = false});
  auto renewed = locks.lock("c", {.ttl = 300ms});
  first.on_lost([&](LossReason) {
    first_told = true;
    blocked.wait_for(5s);
  });
  second.on_lost([&](LossReason) { second_told = true; });
  const NoNewThreads exhausted;
  EXPECT_TRUE(eventually([&] { return first_told.load(); }));
  EXPECT_TRUE(eventually([&] { return second.loss_reason().has_value(); }, 2s)) << "it is marked in time";
  const int renewals = wire->calls(Operation::extend);
  EXPECT_TRUE(eventually([&] { return wire->calls(Operation::extend) >= renewals + 3; }, 2s));
  EXPECT_TRUE(renewed.still_held());
  EXPECT_FALSE(second_told) << "there is no thread for its callback yet";
  unblock.set_value();
  EXPECT_TRUE(eventually([&] { return second_told.load(); }));
}

TEST_P(GuardLossCallbacks, AThrowingLossCallbackIsSwallowed) {
  auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  guard.on_lost([](LossReason) { throw std::runtime_error("callback"); });
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
}

INSTANTIATE_TEST_SUITE_P(Facades, GuardLoss, testing::ValuesIn(facades()), facade_name);
INSTANTIATE_TEST_SUITE_P(Facades, GuardLossCallbacks, testing::ValuesIn(waiting_facades()), facade_name);

}  // namespace
}  // namespace holdfast::test
