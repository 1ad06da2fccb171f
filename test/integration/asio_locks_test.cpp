// Locks for coroutines and callbacks: what the facade adds. What it passes on is in the contract suites.

#include <gtest/gtest.h>

#include <asio/bind_executor.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <future>
#include <set>
#include <thread>

#include "integration/asio_fixture.hpp"
#include "support/engines.hpp"
#include "support/eventually.hpp"
#include "support/faulty_backend.hpp"
#include "support/hooked_backend.hpp"

namespace holdfast::test {
namespace {

class AsioLocks : public AsioFixture {};

/// Every operation once, with something there for it to find. `use(operation, check)` calls
/// `operation(token)` with a token of its kind, and `check` with what came of it.
template <class Use>
void use_everything(AsyncLocks& on, const Locks& blocking, const Use& use) {
  const auto held = blocking.acquire("held");
  const std::string id(held.id.str());
  use([&](auto token) { return on.lock("lock", {.ttl = 20s}, std::move(token)); },
      [](const AsyncGuard& guard) { EXPECT_EQ(guard.key(), "lock"); });
  use([&](auto token) { return on.try_lock("try", {}, std::move(token)); },
      [](const std::optional<AsyncGuard>& guard) { EXPECT_EQ(guard.value().key(), "try"); });
  use([&](auto token) { return on.acquire("acquire", {.ttl = 20s}, std::move(token)); },
      [](const Lease& lock) { EXPECT_EQ(lock.key, "acquire"); });
  use([&](auto token) { return on.extend(id, 40s, std::move(token)); },
      [&](std::optional<WallTime> expiry) { EXPECT_GT(expiry, held.expires_at); });
  use([&](auto token) { return on.is_locked("held", std::move(token)); }, [](bool is) { EXPECT_TRUE(is); });
  use([&](auto token) { return on.get_by_key("held", std::move(token)); },
      [&](const std::optional<LockInfo>& info) { EXPECT_EQ(info.value().fence, held.fence); });
  use([&](auto token) { return on.get_by_id(id, std::move(token)); },
      [&](const std::optional<LockInfo>& info) { EXPECT_EQ(info.value().fence, held.fence); });
  use([&](auto token) { return on.get_by_key_raw("held", std::move(token)); },
      [&](const std::optional<LockRecord>& record) { EXPECT_EQ(record.value().id, held.id); });
  use([&](auto token) { return on.get_by_id_raw(id, std::move(token)); },
      [&](const std::optional<LockRecord>& record) { EXPECT_EQ(record.value().key.str(), held.key); });
  use([&](auto token) { return on.owns("held", id, std::move(token)); }, [](bool is) { EXPECT_TRUE(is); });
  use([&](auto token) { return on.list_raw({}, std::move(token)); },
      [](const LockPage& page) { EXPECT_FALSE(page.locks.empty()); });
  const std::array<LockKey, 1> keys{LockKey::parse("held").value_or_throw()};
  use([&](auto token) { return on.count_waiters(keys, std::move(token)); },
      [](const WaiterCounts& waiters) { EXPECT_EQ(waiters, WaiterCounts(1, 0U)); });
  use([&](auto token) { return on.follow(std::move(token)); },
      [](const std::unique_ptr<ChangeFeed>& feed) { EXPECT_TRUE(feed); });
  use([&](auto token) { return on.follow_grants(std::move(token)); },
      [](const std::unique_ptr<ChangeFeed>& feed) { EXPECT_FALSE(feed) << "only Redis has one"; });
  use([&](auto token) { return on.release(id, std::move(token)); }, [](bool was) { EXPECT_TRUE(was); });
  (void)blocking.acquire("broken");
  use([&](auto token) { return on.break_lock("broken", "a test", std::move(token)); },
      [](const std::optional<LockInfo>& info) { EXPECT_TRUE(info); });
  const auto adopted = blocking.acquire("adopted");
  use([&](auto token) { return on.adopt(adopted, {}, std::move(token)); },
      [](const std::optional<AsyncGuard>& guard) { EXPECT_TRUE(guard); });

  const auto executor = on.get_executor();
  AsyncGuard guard(executor, blocking.lock("guard"));
  use([&](auto token) { return guard.extend(40s, std::move(token)); }, [](bool is) { EXPECT_TRUE(is); });
  use([&](auto token) { return guard.release(std::move(token)); }, [](bool was) { EXPECT_TRUE(was); });
  AsyncGuard detached(executor, blocking.lock("detach"));
  use([&](auto token) { return detached.detach(std::move(token)); },
      [](const std::optional<Lease>& lock) { EXPECT_EQ(lock.value().key, "detach"); });
  AsyncGuard lost(executor, blocking.lock("lost", {.ttl = 20ms, .auto_renew = false}));
  use([&](auto token) { return lost.wait_lost(std::move(token)); },
      [](LossReason reason) { EXPECT_EQ(reason, LossReason::unproven); });
}

TEST_F(AsioLocks, EveryOperationTakesACallbackThatIsCalledLaterOnTheContextsThread) {
  use_everything(locks, blocking, [&](auto operation, auto check) {
    bool initiated = false;
    int called = 0;
    operation([&](const std::exception_ptr& error, auto value) {
      EXPECT_TRUE(initiated) << "called inside the call";
      EXPECT_FALSE(error);
      ++called;
      if (!error) check(value);
    });
    initiated = true;
    context.restart();
    context.run();
    EXPECT_EQ(called, 1);
  });
}

TEST_F(AsioLocks, EveryOperationGivesAFuture) {
  use_everything(locks, blocking,
                 [](auto operation, auto check) { check(operation(asio::use_future).get()); });
}

TEST_F(AsioLocks, EveryOperationCanBeAwaited) {
  use_everything(locks, blocking, [&](auto operation, auto check) {
    run([](auto begin, auto verify) -> awaitable<void> {
      const auto value = co_await begin(use_awaitable);
      verify(value);
    }(operation, check));
  });
}

TEST_F(AsioLocks, WithoutATokenEveryOperationIsAwaited) {
  run([](AsyncLocks& on) -> awaitable<void> {
    const auto key = std::string(100, 'k');
    auto guard = co_await on.lock(key, {.ttl = 30s, .wait = 5s});
    EXPECT_EQ(guard.key(), key);
    auto other = co_await on.try_lock("other", {.ttl = 30s, .max_hold = 20s, .dispose_timeout = 1s});
    EXPECT_TRUE(other.has_value());
    const auto detached = co_await on.acquire("third", {.ttl = 30s});
    EXPECT_TRUE(co_await on.extend(detached.id.str(), 40s));
    auto adopted = co_await on.adopt(detached, {.ttl = 30s, .auto_renew = false});
    EXPECT_TRUE(adopted.has_value());
    const auto page = co_await on.list_raw({.limit = 10});
    EXPECT_EQ(page.locks.size(), 3U);
    EXPECT_TRUE(co_await on.owns("third", detached.id.str()));
    EXPECT_TRUE(co_await on.break_lock("other", std::string(100, 'r')));
    EXPECT_FALSE(co_await other->release());
    EXPECT_TRUE(co_await adopted->detach());
    EXPECT_TRUE(co_await on.release(detached.id.str()));
    EXPECT_TRUE(co_await guard.release());
    EXPECT_FALSE(co_await guard.release()) << "empty by then";
  }(locks));
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

TEST_F(AsioLocks, AnErrorIsThrownInTheCoroutine) {
  run([](AsyncLocks& on) -> awaitable<void> {
    ErrorCode code{};
    try {
      (void)co_await on.lock("");
    } catch (const Error& error) {
      code = error.code();
    }
    EXPECT_EQ(code, ErrorCode::InvalidArgument);
    std::optional<Lease> acquired;
    try {
      acquired = co_await on.acquire("k", {.ttl = 0ms});
    } catch (const Error& error) {
      code = error.code();
    }
    EXPECT_FALSE(acquired);
  }(locks));
}

TEST_F(AsioLocks, AnErrorComesWithAnEmptyValue) {
  int called = 0;
  locks.lock("", {}, [&](const std::exception_ptr& error, const AsyncGuard& guard) {
    EXPECT_EQ(code_of(error), ErrorCode::InvalidArgument);
    EXPECT_FALSE(guard);
    ++called;
  });
  locks.acquire("", {}, [&](const std::exception_ptr& error, const Lease&) {
    EXPECT_EQ(code_of(error), ErrorCode::InvalidArgument);
    ++called;
  });
  AsyncGuard empty;
  empty.extend(1s, asio::bind_executor(context, [&](const std::exception_ptr& error, bool) {
                 EXPECT_EQ(code_of(error), ErrorCode::InvalidArgument);
                 ++called;
               }));
  context.run();
  EXPECT_EQ(called, 3);
  EXPECT_FALSE(empty.release(asio::use_future).get());
  EXPECT_THROW(empty.on_lost([](LossReason) {}), Error);
}

TEST_F(AsioLocks, HandlersRunOnTheirOwnExecutor) {
  auto strand = asio::make_strand(context);
  asio::io_context other;
  asio::thread_pool pool(1);
  const auto pools_thread =
      asio::post(pool, asio::use_future([] { return std::this_thread::get_id(); })).get();
  bool on_strand = false;
  locks.lock("strand", {}, asio::bind_executor(strand, [&](const std::exception_ptr&, const AsyncGuard&) {
               on_strand = strand.running_in_this_thread();
             }));
  bool on_other = false;
  locks.lock("other", {}, asio::bind_executor(other, [&](const std::exception_ptr&, const AsyncGuard&) {
               on_other = other.get_executor().running_in_this_thread();
             }));
  std::promise<std::thread::id> on_pool;
  locks.lock("pool", {}, asio::bind_executor(pool, [&](const std::exception_ptr&, const AsyncGuard&) {
               on_pool.set_value(std::this_thread::get_id());
             }));
  EXPECT_EQ(on_pool.get_future().get(), pools_thread);
  context.run();
  EXPECT_TRUE(on_strand);
  EXPECT_FALSE(on_other);
  other.run();
  EXPECT_TRUE(on_other);
}

TEST_F(AsioLocks, AFacadeOnAStrandOrAPoolCompletesThere) {
  auto strand = asio::make_strand(context);
  AsyncLocks stranded(strand, blocking);
  bool on_strand = false;
  stranded.lock("k", {}, [&](const std::exception_ptr&, const AsyncGuard& guard) {
    on_strand = strand.running_in_this_thread() && guard.get_executor() == asio::any_io_executor(strand);
  });
  context.run();
  EXPECT_TRUE(on_strand);

  asio::thread_pool pool(2);
  AsyncLocks pooled(pool.get_executor(), blocking);
  std::promise<bool> told;
  pooled.lock("k", {.wait = 10s}, [&](const std::exception_ptr& error, const AsyncGuard&) {
    told.set_value(!error && pool.get_executor().running_in_this_thread());
  });
  EXPECT_TRUE(told.get_future().get());
}

TEST_F(AsioLocks, APendingCallKeepsItsContextRunning) {
  auto held = blocking.lock("k");
  bool called = false;
  locks.lock("k", {.wait = no_time_limit},
             [&](const std::exception_ptr&, const AsyncGuard&) { called = true; });
  std::jthread releaser([&] {
    std::this_thread::sleep_for(20ms);
    held.release();
  });
  context.run();
  EXPECT_TRUE(called);
}

TEST_F(AsioLocks, ALossCallbackIsPostedAndKeepsNoContextRunning) {
  run([](AsyncLocks& on) -> awaitable<void> {
    auto strand = asio::make_strand(co_await asio::this_coro::executor);
    AsyncLocks stranded(strand, on.blocking());
    auto guard = co_await stranded.lock("k", {.ttl = 30ms, .auto_renew = false});
    std::promise<LossReason> told;
    bool on_strand = false;
    guard.on_lost([&, own = std::make_unique<int>()](LossReason reason) {
      on_strand = strand.running_in_this_thread();
      told.set_value(reason);
    });
    auto answer = told.get_future();
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (answer.wait_for(0s) != std::future_status::ready) {
      timer.expires_after(1ms);
      co_await timer.async_wait(use_awaitable);
    }
    EXPECT_EQ(answer.get(), LossReason::unproven);
    EXPECT_TRUE(on_strand);
  }(locks));
  AsyncGuard held(context.get_executor(), blocking.lock("other"));
  held.on_lost([](LossReason) {});
  held.on_at_risk([](bool) {});
  context.restart();
  context.run();  // returns
}

TEST_F(AsioLocks, ARiskCallbackIsPostedEachTimeAndNotAfterItsContext) {
  const auto wire = std::make_shared<FaultyBackend>(make_memory_lock_backend());
  const Locks faulty(wire);
  auto own = std::make_unique<asio::io_context>();
  AsyncGuard guard(own->get_executor(), faulty.lock("k", {.ttl = 60s, .auto_renew = false}));
  std::vector<bool> told;
  guard.on_at_risk([&told, move_only = std::make_unique<int>()](bool at_risk) { told.push_back(at_risk); });
  auto held = std::move(guard).into_guard();
  const auto extend = [&held, &wire](bool fails) {
    if (!fails) return (void)held.extend(60s);
    wire->plan(FaultyBackend::Operation::extend, FaultyBackend::Fault::not_sent);
    EXPECT_THROW(held.extend(60s), Error);
  };
  for (std::size_t i = 0; i < 4; ++i) {
    extend(i % 2 == 0);
    EXPECT_TRUE(eventually([&] {
      own->restart();
      own->poll();
      return told.size() == i + 1;
    }));
  }
  EXPECT_EQ(told, (std::vector{true, false, true, false}));
  own.reset();
  extend(true);
  held.release();  // waits for the callback
  EXPECT_EQ(told.size(), 4U);
}

TEST_F(AsioLocks, AnEngineThatBlocksNeverDoesSoOnTheContextsThread) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  int operations = 0;
  const auto recorded = std::make_shared<HookedBackend>(
      memory,
      [&](const std::function<void()>& send) {
        {
          const std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
          ++operations;
        }
        send();
      },
      HookedBackend::Options{.blocks = true});
  const auto threads_so_far = [&] {
    const std::lock_guard lock(mutex);
    return threads.size();
  };
  {
    // What the blocking calls of `use_everything` do is not recorded: they go to the engine itself.
    AsyncLocks on(context.get_executor(), Locks(recorded));
    // Guards stay alive until the steps' threads are counted: destructors release on threads of another pool.
    std::vector<std::shared_ptr<void>> kept;
    use_everything(on, blocking, [&](auto operation, auto check) {
      run([](auto begin, auto verify, auto& keep) -> awaitable<void> {
        auto value = co_await begin(use_awaitable);
        verify(value);
        keep.push_back(std::make_shared<decltype(value)>(std::move(value)));
      }(operation, check, kept));
    });
    run([](AsyncLocks& there, auto& keep) -> awaitable<void> {
      auto guard = co_await there.lock("k");
      EXPECT_TRUE(co_await guard.extend(40s));
      EXPECT_FALSE(co_await there.try_lock("k"));
      auto waiting = there.lock("k", {.wait = 10s}, asio::use_future);
      EXPECT_TRUE(co_await guard.release());
      auto next = waiting.get();
      const auto detached = co_await next.detach();
      EXPECT_TRUE(detached);
      auto adopted = co_await there.adopt(*detached);
      EXPECT_TRUE(adopted);
      keep.push_back(std::make_shared<decltype(adopted)>(std::move(adopted)));
    }(on, kept));
    EXPECT_LE(threads_so_far(), 4U) << "a small pool";
    kept.clear();  // the destructors release, in the background
    EXPECT_TRUE(eventually([&] { return !blocking.is_locked("k"); }));
  }
  const std::lock_guard lock(mutex);
  EXPECT_GT(operations, 20);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
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

TEST_F(AsioLocks, RenewalsDoNotDisturbWhoWaitsForTheLoss) {
  run([](AsyncLocks& on) -> awaitable<void> {
    auto guard = co_await on.lock("k", {.ttl = 300ms});
    auto loss = guard.wait_lost(asio::use_future);
    EXPECT_EQ(loss.wait_for(350ms), std::future_status::timeout) << "several renewals";
    EXPECT_TRUE(co_await guard.extend(300ms));
    EXPECT_EQ(loss.wait_for(0ms), std::future_status::timeout);
    EXPECT_TRUE(co_await on.break_lock("k", "to see what happens"));
    EXPECT_EQ(loss.get(), LossReason::gone);
  }(locks));
}

TEST_F(AsioLocks, WhoWaitsForTheLossOfAnEndedGuardIsToldThatToo) {
  run([](AsyncLocks& on) -> awaitable<void> {
    auto guard = co_await on.lock("k");
    std::optional<ErrorCode> ended;
    guard.wait_lost([&](const std::exception_ptr& failure, LossReason) { ended = code_of(failure); });
    EXPECT_TRUE(co_await guard.release());
    while (!ended) co_await asio::post(use_awaitable);
    EXPECT_EQ(ended, ErrorCode::Aborted);
  }(locks));
}

/// The way of a lock from coroutine to coroutine, on every kind of engine.
class AsioEngines : public testing::TestWithParam<LockEngine> {};

TEST_P(AsioEngines, CoroutinesPassALockOnToEachOther) {
  if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
  const auto world = GetParam().make_world();
  asio::io_context context;
  AsyncLocks mine(context.get_executor(), Locks(world->open()));
  AsyncLocks theirs(context.get_executor(), Locks(world->open()));
  int inside = 0, turns = 0;
  std::uint64_t last_fence = 0;
  const auto take_turns = [&](AsyncLocks& on) -> awaitable<void> {
    for (int i = 0; i < 5; ++i) {
      auto guard = co_await on.lock("k", {.wait = no_time_limit});
      EXPECT_EQ(inside++, 0);
      EXPECT_GT(guard.fence().value(), last_fence);
      last_fence = guard.fence().value();
      EXPECT_TRUE(co_await guard.extend(40s));
      EXPECT_TRUE(co_await on.owns("k", guard.id().str()));
      --inside;
      ++turns;
      EXPECT_TRUE(co_await guard.release());
    }
  };
  for (int i = 0; i < 4; ++i) asio::co_spawn(context, take_turns(i % 2 == 0 ? mine : theirs), asio::detached);
  context.run();
  EXPECT_EQ(turns, 20);
}

std::vector<LockEngine> one_of_each_kind() {
  auto all = lock_engines();
  std::erase_if(all, [](const LockEngine& engine) {
    return engine.name != "memory" && engine.name != "sqlite" && engine.name != "redis_tcp";
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Engines, AsioEngines, testing::ValuesIn(one_of_each_kind()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
