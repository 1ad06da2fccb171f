#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <future>
#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <thread>

#include "support/calls.hpp"
#include "support/faulty_backend.hpp"

namespace holdfast::test {
namespace {

using Fault = FaultyBackend::Fault;
using Operation = FaultyBackend::Operation;

class GuardTest : public testing::Test {
 protected:
  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  std::shared_ptr<FaultyBackend> wire = std::make_shared<FaultyBackend>(memory);
  Locks locks{wire};
};

/// Waits until the condition holds; a test fails by its assertion afterwards, not by hanging.
template <class F>
bool eventually(F&& condition, milliseconds within = 5s) {
  const BootTime end = BootClock::now() + within;
  while (!condition()) {
    if (BootClock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST_F(GuardTest, HoldsTheLockForItsScope) {
  {
    const Guard guard = locks.lock("k");
    EXPECT_TRUE(guard);
    EXPECT_TRUE(guard.still_held());
    EXPECT_EQ(guard.key(), "k");
    EXPECT_EQ(guard.authority(), memory->authority());
    EXPECT_GT(guard.remaining(), 29s);
    EXPECT_LT(guard.remaining(), 30s);
    const auto record = locks.get_by_key_raw("k");
    ASSERT_TRUE(record);
    EXPECT_EQ(record->id, guard.id());
    EXPECT_EQ(record->fence, guard.fence());
    EXPECT_EQ(record->expires_at_ms, guard.expires_at_ms());
  }
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_F(GuardTest, AWaiterGetsTheLockAsSoonAsItIsFreed) {
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

TEST_F(GuardTest, AWaiterGetsTheLockAsSoonAsItExpires) {
  const auto detached = locks.acquire("k", {.ttl = 80ms});
  const BootTime before = BootClock::now();
  const auto guard =
      locks.lock("k", {.wait = 30s, .base_delay = 20s, .max_delay = 20s, .jitter = Jitter::none});
  EXPECT_GT(guard.fence(), detached.fence);
  EXPECT_LT(BootClock::now() - before, 10s);
}

TEST_F(GuardTest, ManyWaitersAllGetTheirTurnWithoutPolling) {
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

TEST_F(GuardTest, TryLockMakesOneAttempt) {
  const auto guard = locks.try_lock("k");
  ASSERT_TRUE(guard);
  const auto calls = wire->calls(Operation::acquire);
  EXPECT_FALSE(locks.try_lock("k"));
  EXPECT_EQ(wire->calls(Operation::acquire), calls + 1);
}

TEST_F(GuardTest, GivesUpAfterItsPatience) {
  const auto held = locks.lock("k");
  const BootTime before = BootClock::now();
  try {
    (void)locks.lock("k", {.wait = 60ms});
    FAIL() << "granted twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::AcquisitionTimeout);
    EXPECT_EQ(error.key(), "k");
  }
  EXPECT_GE(BootClock::now() - before, 60ms);
}

TEST_F(GuardTest, AWaitCanBeStopped) {
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

TEST_F(GuardTest, WaitingBurnsNoCpu) {
  const auto held = locks.lock("k");
  const auto cpu = [] {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  };
  const auto before = cpu();
  EXPECT_THROW((void)locks.lock("k", {.wait = 500ms}), Error);
  EXPECT_LT(cpu() - before, 100ms);
}

TEST_F(GuardTest, BadInputIsRefusedBeforeAnyOperation) {
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

TEST_F(GuardTest, MovesAndIsEmptyAfterwards) {
  Guard first = locks.lock("a");
  Guard second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_FALSE(first.release());
  EXPECT_FALSE(first.still_held());
  EXPECT_THROW((void)first.key(), Error);
  EXPECT_TRUE(second.still_held());
  second = locks.lock("b");
  EXPECT_FALSE(locks.is_locked("a")) << "what it held before is released";
  EXPECT_TRUE(locks.is_locked("b"));
  Guard& same = second;
  second = std::move(same);
  EXPECT_TRUE(second.still_held());
}

TEST_F(GuardTest, ReleasesAtMostOnce) {
  {
    auto guard = locks.lock("k");
    EXPECT_TRUE(guard.release());
    EXPECT_FALSE(guard);
    EXPECT_FALSE(guard.release());
  }
  EXPECT_EQ(wire->calls(Operation::release), 1);
}

TEST_F(GuardTest, ReleaseSaysWhetherTheLockWasStillThere) {
  auto guard = locks.lock("k");
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_FALSE(guard.release());
}

TEST_F(GuardTest, ManualReleaseThrowsSystemErrorsAndLeavesTheGuardEmpty) {
  auto guard = locks.lock("k");
  wire->plan(Operation::release, Fault::refused_auth);
  try {
    guard.release();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::AuthFailed);
    EXPECT_EQ(error.key(), "k");
    EXPECT_FALSE(error.lock_id().empty());
  }
  EXPECT_FALSE(guard);
}

TEST_F(GuardTest, AReleaseWhoseAnswerWasLostIsRepeatedAndCountsAsDone) {
  auto guard = locks.lock("k");
  wire->plan(Operation::release, Fault::answer_lost);
  EXPECT_TRUE(guard.release());
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_F(GuardTest, AReleaseWhoseAnswerWasLostPastTheLeaseDoesNotCountAsDone) {
  auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  std::this_thread::sleep_for(40ms);
  wire->plan(Operation::release, Fault::answer_lost);
  EXPECT_FALSE(guard.release());
}

TEST_F(GuardTest, TheDestructorReportsSystemErrorsAndNotAbsence) {
  std::vector<ErrorCode> reported;
  {
    auto guard = locks.lock("a");
    guard.on_release_error([&](const Error& error) { reported.push_back(error.code()); });
    wire->plan(Operation::release, Fault::not_sent, 2);
  }
  EXPECT_EQ(reported, std::vector{ErrorCode::ServiceUnavailable});
  {
    auto guard = locks.lock("b");
    guard.on_release_error([&](const Error& error) { reported.push_back(error.code()); });
    ASSERT_TRUE(locks.release(guard.id().str()));
  }
  EXPECT_EQ(reported.size(), 1U);
}

TEST_F(GuardTest, TheDestructorSurvivesACallbackThatThrows) {
  auto guard = locks.lock("k");
  guard.on_release_error([](const Error&) { throw std::runtime_error("callback"); });
  wire->plan(Operation::release, Fault::refused_auth);
  guard = Guard();
  EXPECT_TRUE(locks.is_locked("k"));
}

TEST_F(GuardTest, TheDestructorsReleaseEndsAtTheDisposeTimeout) {
  std::atomic<bool> reported{false};
  const BootTime before = BootClock::now();
  {
    auto guard = locks.lock("k", {.dispose_timeout = 60ms});
    guard.on_release_error([&](const Error& error) { reported = error.code() == ErrorCode::NetworkTimeout; });
    wire->plan(Operation::release, Fault::never_answered, 2);
  }
  EXPECT_TRUE(reported);
  EXPECT_GE(BootClock::now() - before, 60ms);
  EXPECT_LT(BootClock::now() - before, 10s);
}

TEST_F(GuardTest, WithoutACallbackAFailedDisposalIsOneLogLineWithoutKeyOrId) {
  const auto log = std::make_shared<Log>();
  std::mutex mutex;
  std::vector<std::string> lines;
  log->set_sink([&](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(message);
  });
  Locks logging(wire, log);
  std::string id;
  {
    const auto guard = logging.lock("secret-key");
    id = guard.id().str();
    wire->plan(Operation::release, Fault::refused_auth);
  }
  log->flush();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find("secret-key"), std::string::npos);
  EXPECT_EQ(lines[0].find(id), std::string::npos);
}

TEST_F(GuardTest, ExtendRenewsByHand) {
  auto guard = locks.lock("k", {.ttl = 5s});
  const auto before = guard.expires_at_ms();
  EXPECT_TRUE(guard.extend(60s));
  EXPECT_GT(guard.remaining(), 50s);
  EXPECT_GT(guard.expires_at_ms(), before + 50'000);
  EXPECT_THROW(guard.extend(0ms), Error);
}

TEST_F(GuardTest, AFailedExtendThrowsAndKeepsTheOldLease) {
  auto guard = locks.lock("k", {.ttl = 60s});
  wire->plan(Operation::extend, Fault::not_sent);
  EXPECT_THROW(guard.extend(90s), Error);
  EXPECT_TRUE(guard.still_held());
  EXPECT_GT(guard.remaining(), 50s);
  EXPECT_LT(guard.remaining(), 60s);
}

TEST_F(GuardTest, AnUnansweredShorterExtendShortensTheProof) {
  auto guard = locks.lock("k", {.ttl = 60s});
  wire->plan(Operation::extend, Fault::answer_lost);
  EXPECT_THROW(guard.extend(2s), Error);
  EXPECT_LT(guard.remaining(), 2s) << "the engine may have taken it";
}

TEST_F(GuardTest, AShorterExtendThatHangsMovesTheLossForward) {
  auto guard = locks.lock("k", {.ttl = 60s, .auto_renew = false});
  wire->plan(Operation::extend, Fault::hangs_for_a_second);
  std::jthread extender([&] { EXPECT_THROW(guard.extend(200ms), Error); });
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }, 700ms))
      << "before the engine answers";
}

TEST_F(GuardTest, ExtendOfALostLockReturnsFalseAndTheGuardIsLost) {
  auto guard = locks.lock("k");
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_FALSE(guard.extend(30s));
  EXPECT_FALSE(guard.still_held());
  EXPECT_EQ(guard.loss_reason(), LossReason::gone);
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_FALSE(locks.is_locked("k")) << "never created again";
}

TEST_F(GuardTest, RenewsItselfForAsLongAsItLives) {
  const auto guard = locks.lock("k", {.ttl = 200ms});
  const auto first = guard.expires_at_ms();
  std::this_thread::sleep_for(1s);
  EXPECT_TRUE(guard.still_held());
  EXPECT_FALSE(guard.lost().stop_requested());
  EXPECT_GT(guard.expires_at_ms(), first + 500);
  EXPECT_TRUE(locks.is_locked("k"));
}

TEST_F(GuardTest, RenewalSurvivesFailuresThatEndBeforeTheDeadline) {
  wire->plan(Operation::extend, Fault::answer_lost, 2);
  wire->plan(Operation::extend, Fault::not_sent, 2);
  const auto guard = locks.lock("k", {.ttl = 600ms});
  EXPECT_TRUE(eventually([&] { return wire->calls(Operation::extend) >= 6; }));
  EXPECT_TRUE(guard.still_held());
}

TEST_F(GuardTest, WithoutRenewalTheHolderIsToldBeforeItsProofEnds) {
  wire->plan(Operation::extend, Fault::not_sent, 10'000);
  auto guard = locks.lock("k", {.ttl = 300ms});
  const BootTime proof_end = BootClock::now() + guard.remaining();
  std::promise<std::pair<LossReason, BootTime>> told;
  guard.on_lost([&](LossReason reason) { told.set_value({reason, BootClock::now()}); });
  std::atomic<bool> token_first{false};
  const auto [reason, at] = told.get_future().get();
  token_first = guard.lost().stop_requested();
  EXPECT_EQ(reason, LossReason::unproven);
  EXPECT_TRUE(token_first);
  EXPECT_FALSE(guard.still_held());
  EXPECT_EQ(guard.remaining(), 0ns);
  // The signal is due 3 ms before the proof ends; a loaded machine may be late in running the thread.
  EXPECT_LT(at - proof_end, 50ms);
  EXPECT_GT(wire->calls(Operation::extend), 5);
}

TEST_F(GuardTest, ALockTakenAwayIsNoticedAtTheNextRenewal) {
  auto guard = locks.lock("k", {.ttl = 150ms});
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::gone);
  EXPECT_FALSE(locks.is_locked("k")) << "never created again";
}

TEST_F(GuardTest, MaxHoldEndsTheGuardThoughItsLeaseIsRenewed) {
  auto guard = locks.lock("k", {.ttl = 120ms, .max_hold = 300ms});
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(guard.still_held());
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  EXPECT_EQ(guard.loss_reason(), LossReason::max_hold);
  guard.release();
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_F(GuardTest, ReleasingIsNotALoss) {
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

TEST_F(GuardTest, ALossCallbackSetTooLateRunsAtOnceAndOnlyOnce) {
  auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
  std::atomic<int> calls{0};
  guard.on_lost([&](LossReason) { ++calls; });
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 1);
}

TEST_F(GuardTest, ABlockedLossCallbackHoldsUpNeitherRenewalsNorOtherLosses) {
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  auto first = locks.lock("a", {.ttl = 30ms, .auto_renew = false});
  std::atomic<bool> entered{false};
  first.on_lost([&](LossReason) {
    entered = true;
    blocked.wait();
  });
  EXPECT_TRUE(eventually([&] { return entered.load(); }));

  const auto renewed = locks.lock("b", {.ttl = 150ms});
  auto second = locks.lock("c", {.ttl = 30ms, .auto_renew = false});
  EXPECT_TRUE(eventually([&] { return second.lost().stop_requested(); }));
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(renewed.still_held());
  unblock.set_value();
}

TEST_F(GuardTest, AnEngineThatHangsDoesNotKeepAHolderFromBeingTold) {
  wire->plan(Operation::extend, Fault::never_answered, 100);
  const auto hanging = locks.lock("a", {.ttl = 900ms});
  std::this_thread::sleep_for(350ms);  // its renewal hangs now, on the only renewing thread
  ASSERT_EQ(wire->calls(Operation::extend), 1);
  const auto other = locks.lock("b", {.ttl = 100ms, .auto_renew = false});
  EXPECT_TRUE(eventually([&] { return other.lost().stop_requested(); }, 400ms));
  EXPECT_TRUE(eventually([&] { return hanging.lost().stop_requested(); }));
}

TEST_F(GuardTest, AGuardCanBeDestroyedInItsOwnLossCallback) {
  auto guard = std::make_shared<Guard>(locks.lock("k", {.ttl = 30ms, .auto_renew = false}));
  std::promise<void> done;
  auto* const raw = guard.get();
  raw->on_lost([&done, held = std::move(guard)](LossReason) mutable {
    held.reset();
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(GuardTest, TheLastOwnerOfTheEngineMayBeALossCallback) {
  std::promise<void> done;
  auto holder = std::make_shared<std::pair<std::optional<Locks>, Guard>>();
  holder->first.emplace(std::make_shared<FaultyBackend>(make_memory_lock_backend()));
  holder->second = holder->first->lock("k", {.ttl = 30ms, .auto_renew = false});
  Guard& guard = holder->second;
  guard.on_lost([&done, kept = std::move(holder)](LossReason) mutable {
    kept->first.reset();
    kept->second = Guard();
    kept.reset();
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(GuardTest, TheDestructorWaitsForALossCallbackThatRuns) {
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

TEST_F(GuardTest, TheDestructorWaitsForEveryLossCallbackThatRuns) {
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

TEST_F(GuardTest, TheDisposeTimeoutBoundsTheWaitForALossCallbackToo) {
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

TEST_F(GuardTest, ManyBlockedLossCallbacksDoNotHoldUpTheNextLoss) {
  std::promise<void> unblock;
  const auto blocked = unblock.get_future().share();
  std::vector<Guard> guards;
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

TEST_F(GuardTest, ACallbackMayUseTheGuardWhileItIsReplaced) {
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

/// While this lives no thread can be started: its stack would not fit any address space.
class NoNewThreads {
 public:
  NoNewThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 50);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoNewThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST_F(GuardTest, WithoutAThreadToWatchOverItThereIsNoGuardAndTheNextTryWorks) {
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

TEST_F(GuardTest, AThrowingLossCallbackIsSwallowed) {
  auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  guard.on_lost([](LossReason) { throw std::runtime_error("callback"); });
  EXPECT_TRUE(eventually([&] { return guard.lost().stop_requested(); }));
}

TEST_F(GuardTest, DetachLeavesTheLockAndAdoptGuardsItAgain) {
  auto guard = locks.lock("k", {.ttl = 5s});
  const auto fence = guard.fence();
  const auto detached = guard.detach();
  ASSERT_TRUE(detached);
  EXPECT_FALSE(guard);
  EXPECT_TRUE(locks.is_locked("k"));

  Locks elsewhere(memory);
  {
    auto adopted = elsewhere.adopt(*detached);
    ASSERT_TRUE(adopted);
    EXPECT_EQ(adopted->fence(), fence);
    EXPECT_TRUE(adopted->still_held());
  }
  EXPECT_FALSE(locks.is_locked("k"));
  EXPECT_FALSE(elsewhere.adopt(*detached)) << "it is gone";
}

TEST_F(GuardTest, DetachOfALockThatIsGoneGivesNothing) {
  auto guard = locks.lock("k");
  ASSERT_TRUE(locks.release(guard.id().str()));
  EXPECT_FALSE(guard.detach());
  EXPECT_EQ(guard.loss_reason(), LossReason::gone);
}

TEST_F(GuardTest, AFailedDetachLeavesTheGuardAsItWas) {
  auto guard = locks.lock("k");
  wire->plan(Operation::extend, Fault::not_sent);
  EXPECT_THROW((void)guard.detach(), Error);
  EXPECT_TRUE(guard.still_held());
}

TEST_F(GuardTest, AnAcquireWhoseAnswerWasLostIsAskedAgainAndGetsTheSameLock) {
  wire->plan(Operation::acquire, Fault::answer_lost);
  const BootTime before = BootClock::now();
  const auto guard = locks.lock("k", {.ttl = 10s, .base_delay = 100ms, .jitter = Jitter::none});
  EXPECT_EQ(guard.fence().value(), 1U);
  EXPECT_LE(BootClock::now() + guard.remaining() - before, 10s) << "proven from the first send on";
  EXPECT_EQ(wire->calls(Operation::acquire), 2);
}

TEST_F(GuardTest, AGhostLockIsReleasedInTheBackground) {
  wire->plan(Operation::acquire, Fault::answer_lost);
  wire->plan(Operation::acquire, Fault::not_sent, 100);
  EXPECT_THROW((void)locks.lock("k", {.retries = 2, .base_delay = 1ms}), Error);
  EXPECT_TRUE(eventually([&] { return !locks.is_locked("k"); }));
}

TEST_F(GuardTest, TheLastTransientErrorIsThrownWhenPatienceEnds) {
  wire->plan(Operation::acquire, Fault::not_sent, 100);
  try {
    (void)locks.lock("k", {.retries = 3, .base_delay = 1ms});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable);
  }
  EXPECT_EQ(wire->calls(Operation::acquire), 4);
}

TEST_F(GuardTest, WithLockReturnsWhatTheFunctionReturnsAndReleases) {
  const auto fence = locks.with_lock("k", {}, [&](Guard& guard) {
    EXPECT_TRUE(locks.is_locked("k"));
    return guard.fence();
  });
  EXPECT_EQ(fence.value(), 1U);
  EXPECT_FALSE(locks.is_locked("k"));
  EXPECT_THROW(locks.with_lock("k", {}, [](Guard&) { throw std::runtime_error("work"); }),
               std::runtime_error);
  EXPECT_FALSE(locks.is_locked("k"));
}

TEST_F(GuardTest, GuardsOutliveTheirLocks) {
  Guard guard;
  {
    Locks short_lived(memory);
    guard = short_lived.lock("k", {.ttl = 100ms});
  }
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(guard.still_held());
  EXPECT_TRUE(guard.release());
}

TEST_F(GuardTest, DiagnosisIsSanitisedUnlessAskedForRaw) {
  const auto guard = locks.lock("k");
  const auto info = locks.get_by_key("k");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->key_hash, key_hash("k"));
  EXPECT_EQ(info->lock_id_hash, key_hash(guard.id().str()));
  EXPECT_EQ(info->fence, guard.fence());
  EXPECT_EQ(locks.get_by_id(guard.id().str())->key_hash, key_hash("k"));
  EXPECT_EQ(locks.get_by_id_raw(guard.id().str())->key.str(), "k");
  EXPECT_TRUE(locks.owns("k", guard.id().str()));
  EXPECT_FALSE(locks.owns("k", LockId::generate().str()));
  EXPECT_FALSE(locks.get_by_key("other"));
  EXPECT_EQ(locks.list().locks.size(), 1U);
}

}  // namespace
}  // namespace holdfast::test
