// A call for Asio is cancelled, at every point there is.

#include <gtest/gtest.h>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <future>
#include <holdfast/redis.hpp>
#include <thread>

#include "integration/asio_fixture.hpp"
#include "support/asio_thread.hpp"
#include "support/hooked_backend.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using asio::cancellation_type;

/// An engine that can be held up, behind the locks for coroutines only.
class AsioCancellation : public AsioFixture {
 protected:
  template <class T>
  struct Call {
    asio::cancellation_signal signal;
    std::optional<T> value;
    std::exception_ptr error;

    [[nodiscard]] bool ended() const { return value.has_value(); }
    auto handler() {
      return asio::bind_cancellation_slot(signal.slot(), [this](std::exception_ptr thrown, T result) {
        error = std::move(thrown);
        value.emplace(std::move(result));
      });
    }
  };

  /// Runs the context until that holds.
  [[nodiscard]] bool run_until(const std::function<bool()>& condition) {
    return eventually([&] {
      context.restart();
      context.poll();
      return condition();
    });
  }
  [[nodiscard]] bool is_free(std::string_view key) {
    return eventually([&] { return !blocking.is_locked(key); });
  }

  Gate gate;
  std::shared_ptr<LockBackend> gated = std::make_shared<HookedBackend>(memory, gate.hook());
  AsyncLocks held_up{context.get_executor(), Locks(gated)};
};

TEST_F(AsioCancellation, EverySignalTypeEndsAWait) {
  const auto held = blocking.lock("k");
  for (const auto type :
       {cancellation_type::terminal, cancellation_type::partial, cancellation_type::total}) {
    Call<AsyncGuard> call;
    locks.lock("k", {.wait = no_time_limit}, call.handler());
    context.restart();
    context.poll();
    call.signal.emit(cancellation_type::none);
    EXPECT_FALSE(call.ended());
    call.signal.emit(type);
    EXPECT_TRUE(run_until([&] { return call.ended(); }));
    EXPECT_EQ(code_of(call.error), ErrorCode::Aborted);
    EXPECT_FALSE(*call.value);
  }
  EXPECT_EQ(blocking.get_by_key("k")->fence, held.fence());
}

TEST_F(AsioCancellation, ACancelledCoroutineDoesNotEvenAsk) {
  asio::cancellation_signal signal;
  std::optional<bool> granted;
  asio::co_spawn(
      context,
      [](AsyncLocks& on, std::optional<bool>& result) -> awaitable<void> {
        asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
        try {
          co_await timer.async_wait(use_awaitable);
        } catch (const std::exception&) {  // cancelled, and so is whatever comes next
        }
        try {
          (void)co_await on.lock("k");
          result = true;
        } catch (const asio::system_error&) {
          result = false;
        }
      }(held_up, granted),
      asio::bind_cancellation_slot(signal.slot(), [](const std::exception_ptr&) {}));
  context.poll();
  gate.close();
  signal.emit(cancellation_type::terminal);
  EXPECT_TRUE(run_until([&] { return granted.has_value(); }));
  EXPECT_EQ(granted, false);
  EXPECT_EQ(gate.held_up(), 0U);
}

TEST_F(AsioCancellation, AnAttemptThatHasNotBegunIsAborted) {
  gate.close();
  Call<AsyncGuard> call;
  held_up.lock("k", {}, call.handler());
  ASSERT_EQ(gate.held_up(), 1U);
  call.signal.emit(cancellation_type::terminal);
  gate.open();
  EXPECT_TRUE(run_until([&] { return call.ended(); }));
  EXPECT_EQ(code_of(call.error), ErrorCode::Aborted);
  EXPECT_FALSE(blocking.is_locked("k"));
}

TEST_F(AsioCancellation, AnAttemptThatHasBegunMayStillBeGranted) {
  AsyncLocks deaf(context.get_executor(), Locks(std::make_shared<HookedBackend>(
                                              memory, gate.hook(), HookedBackend::Options{.deaf = true})));
  gate.close();
  {
    Call<AsyncGuard> call;
    deaf.lock("k", {}, call.handler());
    call.signal.emit(cancellation_type::terminal);
    gate.open();
    EXPECT_TRUE(run_until([&] { return call.ended(); }));
    EXPECT_FALSE(call.error);
    EXPECT_TRUE(*call.value) << "granted: it is told, and not lost";
    EXPECT_TRUE(blocking.is_locked("k"));
  }
  EXPECT_TRUE(is_free("k"));
}

TEST_F(AsioCancellation, ASignalAfterTheEndDoesNothing) {
  Call<AsyncGuard> call;
  locks.lock("k", {}, call.handler());
  context.run();
  ASSERT_TRUE(call.ended());
  call.signal.emit(cancellation_type::all);
  EXPECT_TRUE(call.value->still_held());
  // Between the answer and its handler, too.
  Call<AsyncGuard> posted;
  locks.lock("other", {}, posted.handler());
  posted.signal.emit(cancellation_type::all);
  EXPECT_TRUE(run_until([&] { return posted.ended(); }));
  EXPECT_FALSE(posted.error);
}

TEST_F(AsioCancellation, AReleaseThatNobodyWaitsForAnyMoreIsMadeAllTheSame) {
  auto guard = std::make_optional<AsyncGuard>();
  run([](AsyncLocks& on, AsyncGuard& into) -> awaitable<void> { into = co_await on.lock("k"); }(held_up,
                                                                                                *guard));
  gate.close();
  Call<bool> call;
  guard->release(call.handler());
  EXPECT_FALSE(*guard) << "empty from the start";
  call.signal.emit(cancellation_type::terminal);
  guard.reset();
  gate.open();
  EXPECT_TRUE(run_until([&] { return call.ended(); }));
  EXPECT_EQ(code_of(call.error), ErrorCode::Aborted);
  EXPECT_TRUE(is_free("k"));
}

TEST_F(AsioCancellation, AnExtendThatWaitsForAnotherIsStoppedAtOnce) {
  run([](AsyncLocks& on, Gate& at) -> awaitable<void> {
    auto guard = co_await on.lock("k", {.auto_renew = false});
    at.close();
    Call<bool> first, second;
    guard.extend(60s, first.handler());
    guard.extend(10s, second.handler());
    EXPECT_EQ(at.held_up(), 1U) << "never two at once";
    second.signal.emit(cancellation_type::terminal);
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (!second.ended()) {
      timer.expires_after(1ms);
      co_await timer.async_wait(use_awaitable);
    }
    EXPECT_EQ(code_of(second.error), ErrorCode::Aborted);
    EXPECT_FALSE(first.ended());
    at.open();
    while (!first.ended()) {
      timer.expires_after(1ms);
      co_await timer.async_wait(use_awaitable);
    }
    EXPECT_FALSE(first.error);
    EXPECT_TRUE(*first.value);
    EXPECT_GT(guard.remaining(), 50s) << "the second one was never sent";
  }(held_up, gate));
}

TEST_F(AsioCancellation, ADetachThatIsStoppedLeavesTheGuardAsItWas) {
  run([](AsyncLocks& on, Gate& at) -> awaitable<void> {
    auto guard = co_await on.lock("k", {.auto_renew = false});
    at.close();
    Call<std::optional<Lease>> call;
    guard.detach(call.handler());
    call.signal.emit(cancellation_type::terminal);
    at.open();
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (!call.ended()) {
      timer.expires_after(1ms);
      co_await timer.async_wait(use_awaitable);
    }
    EXPECT_EQ(code_of(call.error), ErrorCode::Aborted);
    EXPECT_TRUE(guard);
    EXPECT_TRUE(guard.still_held());
    EXPECT_TRUE(co_await guard.release());
  }(held_up, gate));
  EXPECT_FALSE(blocking.is_locked("k"));
}

TEST_F(AsioCancellation, WhoWaitsForALossMayStopWithoutTheGuardsNoticing) {
  AsyncGuard guard(context.get_executor(), blocking.lock("k"));
  Call<LossReason> first, second;
  guard.wait_lost(first.handler());
  guard.wait_lost(second.handler());
  first.signal.emit(cancellation_type::partial);
  EXPECT_TRUE(run_until([&] { return first.ended(); }));
  EXPECT_EQ(code_of(first.error), ErrorCode::Aborted);
  EXPECT_FALSE(second.ended());
  EXPECT_TRUE(guard.still_held());
  guard = AsyncGuard();
  EXPECT_TRUE(run_until([&] { return second.ended(); }));
  EXPECT_EQ(code_of(second.error), ErrorCode::Aborted);
}

TEST_F(AsioCancellation, OfTwoThatRaceTheLoserHoldsNothing) {
  run([](AsyncLocks& on) -> awaitable<void> {
    using namespace asio::experimental::awaitable_operators;
    for (int i = 0; i < 50; ++i) {
      const auto first = co_await (on.lock("a", {.wait = 1min}) || on.lock("b", {.wait = 1min}));
      EXPECT_LE(first.index(), 1U);
    }
  }(locks));
  EXPECT_TRUE(is_free("a"));
  EXPECT_TRUE(is_free("b"));
}

/// The holder releases on one thread while the waiter is cancelled on another.
TEST_F(AsioCancellation, InTheMomentOfTheGrantThereIsAGuardOrAnError) {
  AsioThread thread;
  AsyncLocks there(thread.context().get_executor(), blocking);
  int granted = 0, aborted = 0;
  for (int round = 0; round < 300; ++round) {
    auto held = blocking.lock("k", {.wait = 10s});
    asio::cancellation_signal signal;
    std::promise<bool> told;
    there.lock("k", {.wait = no_time_limit},
               asio::bind_cancellation_slot(
                   signal.slot(), [&](const std::exception_ptr& error, const AsyncGuard& guard) {
                     EXPECT_EQ(static_cast<bool>(error), !guard);
                     EXPECT_EQ(code_of(error).value_or(ErrorCode::Aborted), ErrorCode::Aborted);
                     told.set_value(static_cast<bool>(guard));
                   }));
    const auto cancel = [&] { signal.emit(cancellation_type::terminal); };
    std::promise<void> emitted;
    asio::post(thread.context(), [&] {
      // Sooner or later than the release, by a little.
      const auto then = std::chrono::steady_clock::now() + std::chrono::microseconds(round % 20 * 5);
      while (std::chrono::steady_clock::now() < then) {
      }
      cancel();
      emitted.set_value();
    });
    held.release();
    told.get_future().get() ? ++granted : ++aborted;
    emitted.get_future().get();
  }
  EXPECT_EQ(granted + aborted, 300);
  EXPECT_TRUE(is_free("k"));
}

TEST_F(AsioCancellation, ManyWaitersAndCancellationsInDisorderLoseNoWakeUp) {
  AsioThread thread;
  AsyncLocks there(thread.context().get_executor(), blocking);
  auto held = blocking.lock("k");
  constexpr int waiters = 100;
  std::atomic<int> ended{0}, granted{0};
  std::vector<asio::cancellation_signal> signals(waiters);
  for (auto& signal : signals) {
    there.lock("k", {.wait = no_time_limit, .base_delay = 1h, .max_delay = 1h},
               asio::bind_cancellation_slot(signal.slot(), [&](const std::exception_ptr& error, AsyncGuard) {
                 if (!error) ++granted;
                 ++ended;
               }));
  }
  asio::post(thread.context(), [&] {
    for (int i = 0; i < waiters; i += 2) signals[static_cast<std::size_t>(i)].emit(cancellation_type::all);
  });
  held.release();
  EXPECT_TRUE(eventually([&] { return ended == waiters; })) << ended;
  EXPECT_GE(granted, waiters / 2);
  EXPECT_TRUE(is_free("k"));
}

/// What was sent to a server is answered or not: whoever cancels does not wait for that.
TEST(AsioRedisCancellation, WhatIsOnItsWayToAServerIsAbortedAtOnceAndLeavesNothingHeld) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  Locks blocking(make_redis_lock_backend(server.tcp()).value_or_throw());
  (void)blocking.is_locked("k");
  asio::io_context context;
  AsyncLocks locks(context.get_executor(), blocking);
  server.pause();
  const auto cancelled = [&](auto begin) {
    asio::cancellation_signal signal;
    std::optional<ErrorCode> code;
    begin(asio::bind_cancellation_slot(
        signal.slot(), [&](const std::exception_ptr& error, const auto&) { code = code_of(error); }));
    asio::steady_timer timer(context, 30ms);
    timer.async_wait([&](auto) { signal.emit(cancellation_type::terminal); });
    context.restart();
    context.run();
    return code;
  };
  EXPECT_EQ(cancelled([&](auto handler) { locks.lock("k", {}, std::move(handler)); }), ErrorCode::Aborted);
  EXPECT_EQ(cancelled([&](auto handler) { locks.try_lock("k", {}, std::move(handler)); }),
            ErrorCode::Aborted);
  EXPECT_EQ(cancelled([&](auto handler) { locks.acquire("k", {}, std::move(handler)); }), ErrorCode::Aborted);
  EXPECT_EQ(cancelled([&](auto handler) { locks.is_locked("k", std::move(handler)); }), ErrorCode::Aborted);
  EXPECT_EQ(cancelled([&](auto handler) { locks.get_by_key("k", std::move(handler)); }), ErrorCode::Aborted);
  server.resume();
  EXPECT_TRUE(eventually([&] { return !blocking.is_locked("k"); }));
}

}  // namespace
}  // namespace holdfast::test
