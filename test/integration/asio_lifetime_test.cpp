// Contexts, coroutines and guards that end while calls for Asio are under way.

#include <gtest/gtest.h>
#include <pthread.h>

#include <asio/bind_executor.hpp>
#include <asio/detached.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <thread>

#include "integration/asio_fixture.hpp"
#include "support/hooked_backend.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

class AsioLifetime : public AsioFixture {
 protected:
  [[nodiscard]] bool is_free(std::string_view key) {
    return eventually([&] { return !blocking.is_locked(key); });
  }
};

TEST_F(AsioLifetime, AContextThatGoesFirstTakesItsHandlersAlong) {
  auto held = blocking.lock("k");
  bool called = false;
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = alive;
  {
    asio::io_context other;
    AsyncLocks there(other.get_executor(), blocking);
    for (int i = 0; i < 10; ++i) {
      there.lock("k", {.wait = no_time_limit},
                 [&called, alive](const std::exception_ptr&, const AsyncGuard&) { called = true; });
    }
    alive.reset();
    other.poll();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired()) << "the handlers were destroyed with their context";
  EXPECT_TRUE(held.release());
  EXPECT_TRUE(is_free("k"));
  EXPECT_FALSE(called);
}

TEST_F(AsioLifetime, AContextThatGoesStopsWhatItsCallsWaitFor) {
  const auto held = blocking.lock("k");
  auto own = std::make_shared<HookedBackend>(memory, [](const std::function<void()>& send) { send(); });
  const std::weak_ptr<HookedBackend> used = own;
  {
    asio::io_context other;
    AsyncLocks there(other.get_executor(), Locks(std::move(own)));
    there.lock("k", {.wait = no_time_limit}, [](const std::exception_ptr&, const AsyncGuard&) {});
    auto strand = asio::make_strand(other);
    there.lock("k", {.wait = no_time_limit},
               asio::bind_executor(strand, [](const std::exception_ptr&, const AsyncGuard&) {}));
    other.poll();
  }
  EXPECT_TRUE(eventually([&] { return used.expired(); })) << "somebody still waits, for nobody";
  EXPECT_TRUE(held.still_held());
}

TEST_F(AsioLifetime, AGuardThatNobodyReceivedIsReleasedWithoutWaiting) {
  Gate gate;
  AsyncLocks there(context.get_executor(), Locks(std::make_shared<HookedBackend>(memory, gate.hook())));
  {
    asio::io_context other;
    there.lock("k", {}, asio::bind_executor(other, [](const std::exception_ptr&, const AsyncGuard&) {
                 ADD_FAILURE() << "the context never ran";
               }));
    EXPECT_TRUE(blocking.is_locked("k"));
    gate.close();
  }
  EXPECT_EQ(gate.held_up(), 1U) << "the release is under way, and the context gone";
  gate.open();
  EXPECT_TRUE(is_free("k"));
}

/// Its id is known to nobody else.
TEST_F(AsioLifetime, ALockWithoutAGuardThatNobodyReceivedIsReleased) {
  Gate gate;
  Locks gated(std::make_shared<HookedBackend>(memory, gate.hook(), HookedBackend::Options{.deaf = true}));
  const auto unexpected = [](const std::exception_ptr&, const Lease&) {
    ADD_FAILURE() << "the context never ran";
  };
  {
    asio::io_context other;
    AsyncLocks there(other.get_executor(), gated);
    there.acquire("posted", {}, unexpected);
    EXPECT_TRUE(blocking.is_locked("posted"));
    gate.close();
    there.acquire("answered later", {}, unexpected);
  }
  gate.open();
  EXPECT_TRUE(is_free("posted"));
  EXPECT_TRUE(is_free("answered later"));
  locks.acquire("received", {},
                [](const std::exception_ptr&, const Lease& lock) { EXPECT_EQ(lock.key, "received"); });
  context.run();
  EXPECT_TRUE(blocking.is_locked("received"));
}

TEST_F(AsioLifetime, ACoroutineThatIsDestroyedReleasesItsGuard) {
  {
    asio::io_context other;
    bool locked = false;
    asio::co_spawn(
        other,
        [](AsyncLocks on, bool& done) -> awaitable<void> {
          const auto guard = co_await on.lock("k", {.ttl = 30s, .wait = 5s});
          done = true;
          asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
          co_await timer.async_wait(use_awaitable);
        }(AsyncLocks(other.get_executor(), blocking), locked),
        asio::detached);
    while (!locked) other.run_one();
    EXPECT_TRUE(blocking.is_locked("k"));
  }
  EXPECT_TRUE(is_free("k"));
}

TEST_F(AsioLifetime, ACoroutineIsDestroyedInTheMiddleOfAnyCall) {
  Gate gate;
  const auto gated = std::make_shared<HookedBackend>(memory, gate.hook());
  const auto abandon = [&](auto body) {
    Locks on(gated);  // its end waits for the guard's release
    {
      asio::io_context other;
      asio::co_spawn(other, body(AsyncLocks(other.get_executor(), on), gate), asio::detached);
      EXPECT_TRUE(eventually([&] {
        other.restart();
        other.poll();
        return gate.held_up() > 0;
      }));
    }
    gate.open();
    EXPECT_TRUE(is_free("k"));
  };
  abandon([](AsyncLocks on, Gate& at) -> awaitable<void> {
    at.close();
    (void)co_await on.lock("k");
  });
  abandon([](AsyncLocks on, Gate& at) -> awaitable<void> {
    auto guard = co_await on.lock("k");
    at.close();
    (void)co_await guard.extend(60s);
  });
  abandon([](AsyncLocks on, Gate& at) -> awaitable<void> {
    auto guard = co_await on.lock("k");
    at.close();
    (void)co_await guard.release();
  });
  abandon([](AsyncLocks on, Gate& at) -> awaitable<void> {
    auto guard = co_await on.lock("k");
    at.close();
    // Stopped before it began, so the guard's end is what counts.
    (void)co_await guard.detach();
  });
}

TEST_F(AsioLifetime, AGuardMayMoveWhileItsReleaseIsPending) {
  Gate gate;
  AsyncLocks there(context.get_executor(), Locks(std::make_shared<HookedBackend>(memory, gate.hook())));
  run([](AsyncLocks& on, Gate& at) -> awaitable<void> {
    auto guard = co_await on.lock("k");
    auto lost = guard.wait_lost(asio::use_future);
    at.close();
    auto released = guard.release(asio::use_future);
    AsyncGuard moved = std::move(guard);
    guard = std::move(moved);
    EXPECT_FALSE(guard);
    at.open();
    EXPECT_TRUE(released.get());
    EXPECT_THROW(lost.get(), Error);
    guard = co_await on.lock("k");
    AsyncGuard elsewhere = std::move(guard);
    EXPECT_TRUE(elsewhere.still_held());
    EXPECT_FALSE(guard);  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_FALSE(co_await guard.release());
    EXPECT_TRUE(co_await elsewhere.release());
  }(there, gate));
}

TEST_F(AsioLifetime, WhatWasDroppedLastIsReleasedWhenTheLastOfAnSqliteEngineIsGone) {
  const TempDir dir;
  const auto file = dir / "locks.db";
  {
    asio::io_context other;
    AsyncLocks there(other.get_executor(), Locks(make_sqlite_lock_backend(file).value_or_throw()));
    for (int i = 0; i < 20; ++i) {
      there.lock("k" + std::to_string(i), {}, [](const std::exception_ptr&, const AsyncGuard&) {});
    }
    other.run();
  }
  Locks next(make_sqlite_lock_backend(file).value_or_throw());
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(next.is_locked("k" + std::to_string(i))) << i;
}

TEST_F(AsioLifetime, AnExtendOutlivesItsGuard) {
  Gate gate;
  AsyncLocks there(context.get_executor(), Locks(std::make_shared<HookedBackend>(memory, gate.hook())));
  run([](AsyncLocks& on, Gate& at) -> awaitable<void> {
    auto guard = std::make_optional(co_await on.lock("k", {.auto_renew = false}));
    at.close();
    auto extended = guard->extend(60s, asio::use_future);
    guard.reset();
    EXPECT_EQ(at.held_up(), 2U) << "the extend, and the release behind it";
    at.open();
    (void)extended.get();
  }(there, gate));
  EXPECT_TRUE(is_free("k"));
}

TEST_F(AsioLifetime, TheFacadeMayEndWhileItsCallsAreUnderWay) {
  auto held = blocking.lock("k");
  std::optional<bool> granted;
  {
    AsyncLocks gone(context.get_executor(), Locks(memory));
    gone.lock("k", {.wait = no_time_limit},
              [&](const std::exception_ptr&, const AsyncGuard& guard) { granted = guard.still_held(); });
  }
  held.release();
  context.run();
  EXPECT_EQ(granted, true);
  EXPECT_TRUE(is_free("k"));
}

TEST_F(AsioLifetime, TensOfThousandsOfPairsInOneCoroutineFitASmallStack) {
  struct Job {
    explicit Job(const Locks& on) : locks(its_context.get_executor(), on) {}
    asio::io_context its_context;
    AsyncLocks locks;
    int pairs = 0;
  } job(blocking);
  asio::co_spawn(
      job.its_context,
      [](AsyncLocks& on, int& pairs) -> awaitable<void> {
        for (; pairs < 25'000; ++pairs) {
          auto guard = co_await on.lock("k", {.ttl = 30s, .wait = 5s});
          if (!co_await guard.release()) co_return;
        }
      }(job.locks, job.pairs),
      asio::detached);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{256} * 1024);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* of) -> void* {
                  static_cast<Job*>(of)->its_context.run();
                  return nullptr;
                },
                &job),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(job.pairs, 25'000);
}

/// The handler ends the context while the thread that brought the answer is hardly through with it.
TEST_F(AsioLifetime, AContextMayGoAsSoonAsTheLastHandlerRuns) {
  const auto pooled = std::make_shared<HookedBackend>(
      memory, [](const std::function<void()>& send) { send(); }, HookedBackend::Options{.blocks = true});
  const Locks from_pool(pooled);
  for (int round = 0; round < 500; ++round) {
    auto other = std::make_unique<asio::io_context>();
    AsyncLocks there(other->get_executor(), from_pool);
    there.is_locked("k", [&](const std::exception_ptr&, bool) { other->stop(); });
    other->run();
    other.reset();
  }
  EXPECT_FALSE(blocking.is_locked("k"));
}

/// The loss is told by one thread while another ends the context that it is told to.
TEST_F(AsioLifetime, AContextMayGoInTheMomentOfALoss) {
  std::atomic<int> told{0};
  for (int round = 0; round < 60; ++round) {
    auto other = std::make_unique<asio::io_context>();
    auto strand = asio::make_strand(*other);
    AsyncLocks there(strand, blocking);
    std::vector<AsyncGuard> guards;
    for (int i = 0; i < 4; ++i) {
      guards.emplace_back(
          strand, blocking.lock("k" + std::to_string(i), {.ttl = 5ms, .wait = 10s, .auto_renew = false}));
      guards.back().on_lost([&](LossReason) { ++told; });
      guards.back().wait_lost([](const std::exception_ptr&, LossReason) {});
    }
    other->run_for(std::chrono::microseconds(3000 + round * 50));
    guards.clear();
    strand = asio::make_strand(context);
    there = AsyncLocks(context.get_executor(), blocking);
    other.reset();
  }
  EXPECT_LE(told, 240);
}

/// Contexts that go while the answers of an engine arrive.
template <class Open>
void destroy_contexts_under(const Open& open, int rounds) {
  const Locks shared(open());
  Locks blocking(open());
  for (int round = 0; round < rounds; ++round) {
    auto context = std::make_unique<asio::io_context>();
    {
      AsyncLocks locks(context->get_executor(), shared);
      for (int i = 0; i < 8; ++i) {
        const auto key = "k" + std::to_string(i);
        locks.lock(key, {.wait = 1min}, [](const std::exception_ptr&, const AsyncGuard&) {});
        locks.is_locked(key, [](const std::exception_ptr&, bool) {});
        asio::co_spawn(
            *context,
            [](AsyncLocks on, std::string name) -> awaitable<void> {
              for (;;) {
                auto guard = co_await on.lock(name, {.wait = 1min});
                (void)co_await guard.release();
              }
            }(locks, key),
            asio::detached);
      }
    }
    context->run_for(std::chrono::microseconds((round % 20) * 200));
    context.reset();
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(eventually([&] { return !blocking.is_locked("k" + std::to_string(i)); })) << i;
  }
}

TEST(AsioContextsThatGo, LeaveNothingHeldInMemory) {
  const auto memory = make_memory_lock_backend();
  destroy_contexts_under([&] { return memory; }, 200);
}

TEST(AsioContextsThatGo, LeaveNothingHeldInSqlite) {
  const TempDir dir;
  destroy_contexts_under([&] { return make_sqlite_lock_backend(dir / "holdfast.db").value_or_throw(); }, 40);
}

TEST(AsioContextsThatGo, LeaveNothingHeldInRedis) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  destroy_contexts_under([&] { return make_redis_lock_backend(server.tcp()).value_or_throw(); }, 150);
}

}  // namespace
}  // namespace holdfast::test
