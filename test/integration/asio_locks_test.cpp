// Locks for coroutines and callbacks: what the facade adds. What it passes on is in the contract suites.

#include <gtest/gtest.h>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/use_future.hpp>
#include <atomic>
#include <future>
#include <holdfast/asio.hpp>
#include <holdfast/memory.hpp>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/faulty_backend.hpp"

namespace holdfast::test {
namespace {

using asio::awaitable;
using asio::use_awaitable;

class AsioLocks : public testing::Test {
 protected:
  /// Runs the coroutine to its end on this thread; what it throws goes on to the test.
  void run(awaitable<void> body) {
    auto end = asio::co_spawn(context, std::move(body), asio::use_future);
    context.restart();
    context.run();
    end.get();
  }

  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  Locks blocking{memory};
  asio::io_context context;
  AsyncLocks locks{context.get_executor(), blocking};
};

ErrorCode code_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.code();
  }
}

TEST_F(AsioLocks, ACoroutineTakesExtendsAndReleases) {
  run([](AsyncLocks& on) -> awaitable<void> {
    auto guard = co_await on.lock("k", {.ttl = 30s});
    EXPECT_TRUE(guard);
    EXPECT_TRUE(guard.still_held());
    EXPECT_TRUE(co_await on.is_locked("k"));
    EXPECT_TRUE(co_await guard.extend(40s));
    EXPECT_GT(guard.remaining(), 31s);
    EXPECT_TRUE(co_await guard.release());
    EXPECT_FALSE(guard);
    EXPECT_FALSE(co_await on.is_locked("k"));
  }(locks));
}

TEST_F(AsioLocks, ACallbackAndAFutureDoAsWell) {
  bool called = false;
  locks.lock("callback", {}, [&](const std::exception_ptr& error, AsyncGuard guard) {
    EXPECT_FALSE(error);
    EXPECT_EQ(guard.key(), "callback");
    called = true;
  });
  EXPECT_FALSE(called) << "a handler never runs inside the call";
  auto future = locks.lock("future", {}, asio::use_future);
  context.run();
  EXPECT_TRUE(called);
  EXPECT_EQ(future.get().key(), "future");
}

TEST_F(AsioLocks, AnErrorIsThrownInTheCoroutine) {
  run([](AsyncLocks& on) -> awaitable<void> {
    ErrorCode code{};
    try {
      (void)co_await on.lock("");
    } catch (const Error& error) {
      code = error.code();
    }
    EXPECT_EQ(code, ErrorCode::InvalidArgument);
    std::optional<DetachedLock> acquired;
    try {
      acquired = co_await on.acquire("k", {.ttl = 0ms});
    } catch (const Error& error) {
      code = error.code();
    }
    EXPECT_FALSE(acquired);
  }(locks));
}

TEST_F(AsioLocks, HandlersRunOnTheirOwnExecutor) {
  auto strand = asio::make_strand(context);
  bool on_strand = false;
  locks.lock("k", {}, asio::bind_executor(strand, [&](const std::exception_ptr&, AsyncGuard) {
               on_strand = strand.running_in_this_thread();
             }));
  context.run();
  EXPECT_TRUE(on_strand);
}

TEST_F(AsioLocks, CancellingAWaitAbortsItAndHoldsNothing) {
  const auto held = blocking.lock("k");
  asio::cancellation_signal cancel;
  std::optional<ErrorCode> code;
  locks.lock(
      "k", {.wait = no_time_limit},
      asio::bind_cancellation_slot(cancel.slot(), [&](const std::exception_ptr& error, AsyncGuard guard) {
        EXPECT_FALSE(guard);
        code = code_of(error);
      }));
  asio::steady_timer timer(context, 20ms);
  timer.async_wait([&](auto) { cancel.emit(asio::cancellation_type::all); });
  context.run();
  EXPECT_EQ(code, ErrorCode::Aborted);
  EXPECT_EQ(blocking.get_by_key("k")->fence, held.fence());
}

TEST_F(AsioLocks, ATimerBesideAWaitEndsIt) {
  const auto held = blocking.lock("k");
  run([](AsyncLocks& on) -> awaitable<void> {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
    const auto first = co_await (on.lock("k", {.wait = no_time_limit}) || timer.async_wait(use_awaitable));
    EXPECT_EQ(first.index(), 1U);
  }(locks));
}

TEST_F(AsioLocks, AWaiterGetsTheLockWhenItIsReleased) {
  auto held = blocking.lock("k");
  run([](AsyncLocks& on, Guard& holder) -> awaitable<void> {
    asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
    timer.async_wait([&](auto) { holder.release(); });
    const auto guard = co_await on.lock("k", {.wait = no_time_limit});
    EXPECT_TRUE(guard.still_held());
  }(locks, held));
}

TEST_F(AsioLocks, TheDestructorReleasesInTheBackground) {
  run([](AsyncLocks& on) -> awaitable<void> {
    (void)co_await on.lock("k", {.wait = 0ms});
    const auto again = co_await on.lock("k", {.wait = 10s});
    EXPECT_TRUE(again);
  }(locks));
  EXPECT_TRUE(eventually([&] { return !blocking.is_locked("k"); }));
}

TEST_F(AsioLocks, TryLockHasNothingToGiveWhileAnotherHolds) {
  const auto held = blocking.lock("k");
  run([](AsyncLocks& on) -> awaitable<void> {
    EXPECT_FALSE(co_await on.try_lock("k"));
    EXPECT_TRUE(co_await on.try_lock("free"));
  }(locks));
}

TEST_F(AsioLocks, ALockIsDetachedAndAdopted) {
  run([](AsyncLocks& on) -> awaitable<void> {
    auto guard = co_await on.lock("k");
    const auto detached = co_await guard.detach();
    EXPECT_TRUE(detached.has_value());
    EXPECT_FALSE(guard);
    auto adopted = co_await on.adopt(*detached);
    EXPECT_TRUE(adopted.has_value());
    EXPECT_EQ(adopted->fence(), detached->fence);
    EXPECT_TRUE(co_await adopted->release());
  }(locks));
}

TEST_F(AsioLocks, ALossIsTold) {
  run([](AsyncLocks& on) -> awaitable<void> {
    auto guard = co_await on.lock("k", {.ttl = 300ms});
    const auto broken = co_await on.break_lock("k", "to see what happens");
    EXPECT_TRUE(broken.has_value());
    const auto reason = co_await guard.wait_lost();
    EXPECT_EQ(reason, LossReason::gone);
    EXPECT_FALSE(guard.still_held());
    EXPECT_FALSE(co_await guard.release());
  }(locks));
}

TEST_F(AsioLocks, WhoWaitsForTheLossOfAnEndedGuardIsToldThatToo) {
  run([](AsyncLocks& on) -> awaitable<void> {
    auto guard = co_await on.lock("k");
    auto loss = guard.wait_lost(asio::use_future);
    EXPECT_TRUE(co_await guard.release());
    ErrorCode code{};
    try {
      loss.get();
    } catch (const Error& error) {
      code = error.code();
    }
    EXPECT_EQ(code, ErrorCode::Aborted);
  }(locks));
}

TEST_F(AsioLocks, AContextThatGoesFirstTakesItsHandlersAlong) {
  auto held = blocking.lock("k");
  bool called = false;
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = alive;
  {
    asio::io_context other;
    AsyncLocks there(other.get_executor(), blocking);
    for (int i = 0; i < 10; ++i) {
      there.lock("k", {.wait = no_time_limit},
                 [&called, alive](const std::exception_ptr&, AsyncGuard) { called = true; });
    }
    alive.reset();
    other.poll();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired()) << "the handlers were destroyed with their context";
  held.release();
  EXPECT_TRUE(eventually([&] { return !blocking.is_locked("k"); }));
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace holdfast::test
