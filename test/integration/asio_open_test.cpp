// Stores are opened without blocking the context's thread.

#include <gtest/gtest.h>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <filesystem>
#include <future>
#include <holdfast/open.hpp>
#include <latch>

#include "integration/asio_fixture.hpp"
#include "support/asio_thread.hpp"
#include "support/own_store.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

class AsioOpen : public AsioFixture {};

class AsioOpenEngines : public AsioFixture, public testing::WithParamInterface<std::string> {};

awaitable<void> open_and_use(std::string url) {
  const auto executor = co_await asio::this_coro::executor;
  const auto hf = co_await async_open(executor, url);
  EXPECT_TRUE(hf);
  EXPECT_NO_THROW((void)hf.url());
  const AsyncLocks on(executor, hf.locks());
  auto guard = co_await on.lock("leader");
  const auto tasks = co_await async_tasks(executor, hf, {.max_tasks_per_owner = 1});
  const auto made = co_await tasks.create("alice");
  EXPECT_EQ((co_await tasks.create("alice", {}, as_result)).error().code(), ErrorCode::QuotaExceeded);
  const auto claim = co_await tasks.claim("alice", made.id);
  EXPECT_EQ(claim.task().id, made.id);
  const auto state = co_await async_register(executor, hf, "state");
  EXPECT_EQ(co_await state.put("one", guard), 1U);
  EXPECT_EQ((co_await state.get())->written_by, guard.token());
  co_await guard.release();
  const auto refused = co_await state.put("two", guard, as_result);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument) << "the guard is empty";
  const auto by_default = co_await async_tasks(executor, hf);
  EXPECT_EQ((co_await by_default.get("alice", made.id)).id, made.id);
}

TEST_P(AsioOpenEngines, ACoroutineOpensAllThereIs) {
  if (GetParam() == "redis") {
    if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  const OwnStore own(GetParam());
  run(open_and_use(own.url()));
}

INSTANTIATE_TEST_SUITE_P(Engine, AsioOpenEngines, testing::Values("memory", "sqlite", "redis"),
                         [](const auto& engine) { return engine.param; });

TEST_F(AsioOpen, AFailureComesWithAnEmptyHoldfast) {
  int ended = 0;
  const auto fails = [&](std::string url, ErrorCode with) {
    async_open(context.get_executor(), url,
               [&ended, with](const std::exception_ptr& failed, const Holdfast& hf) {
                 EXPECT_EQ(code_of(failed), with);
                 EXPECT_FALSE(hf);
                 ++ended;
               });
  };
  const TempDir directory;
  fails("nonsense", ErrorCode::InvalidArgument);
  fails("redis://localhost?no_such=option", ErrorCode::InvalidArgument);
  fails("sqlite:" + (directory / "missing/file.db").string(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(ended, 0);
  context.run();
  EXPECT_EQ(ended, 3);
}

TEST_F(AsioOpen, WhatIsEmptyIsRefused) {
  const Holdfast empty;
  EXPECT_FALSE(empty);
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(refused([&] { (void)empty.locks(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused([&] { (void)empty.tasks(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused([&] { (void)empty.fenced_register("state"); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused([&] { (void)empty.fenced_registers(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused([&] { (void)empty.url(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused([&] { (void)empty.log(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused([&] { (void)AsyncTasks().blocking(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refused([&] { (void)AsyncRegister().blocking(); }), ErrorCode::InvalidArgument);
  run([](Holdfast none) -> awaitable<void> {
    const auto executor = co_await asio::this_coro::executor;
    const auto tasks = co_await async_tasks(executor, none, as_result);
    EXPECT_EQ(tasks.error().code(), ErrorCode::InvalidArgument);
    const auto state = co_await async_register(executor, none, "state", as_result);
    EXPECT_EQ(state.error().code(), ErrorCode::InvalidArgument);
    EXPECT_EQ((co_await AsyncTasks().get("alice", "id", as_result)).error().code(),
              ErrorCode::InvalidArgument);
    EXPECT_EQ((co_await AsyncRegister().get(as_result)).error().code(), ErrorCode::InvalidArgument);
    const AsyncGuard guard;
    EXPECT_EQ((co_await AsyncRegister().put("text", guard, as_result)).error().code(),
              ErrorCode::InvalidArgument);
  }(empty));
}

TEST_F(AsioOpen, TheInstrumentsSeeWhatIsDone) {
  Instruments instruments;
  instruments.metrics = std::make_shared<Metrics>();
  run([](const Instruments& with) -> awaitable<void> {
    const auto executor = co_await asio::this_coro::executor;
    const auto hf = co_await async_open(executor, "memory:", with);
    const AsyncLocks on(executor, hf.locks());
    (void)co_await on.is_locked("k");
  }(instruments));
  EXPECT_NE(instruments.metrics->prometheus().find("is_locked"), std::string::npos);
  auto opened =
      async_open(context.get_executor(), "memory:", {.metrics = instruments.metrics}, asio::use_future);
  context.restart();
  context.run();
  EXPECT_TRUE(opened.get());
}

// Written in a co_await expression, g++ 12 would destroy them twice.
static_assert(detail::survives_co_await<Instruments, asio::use_future_t<>>);
static_assert(detail::survives_co_await<const Instruments&, asio::use_awaitable_t<>>);
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
static_assert(!detail::survives_co_await<Instruments, asio::use_awaitable_t<>>);
static_assert(!detail::survives_co_await<Instruments, std::remove_const_t<decltype(as_result)>>);
#endif

/// Opened through a server that does not answer for as long as a test likes.
class AsioOpenOfASilentServer : public AsioFixture {
 protected:
  void SetUp() override {
    if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    url = server->url() + "?connect_timeout=30s&name=opening";
  }
  [[nodiscard]] bool is_connected() {
    return server->raw().text({"CLIENT", "LIST"}).find("name=opening") != std::string::npos;
  }

  std::optional<RedisServer> server;
  std::string url;
};

TEST_F(AsioOpenOfASilentServer, DoesNotHoldUpTheContext) {
  server->pause();
  std::optional<bool> opened;
  async_open(context.get_executor(), url,
             [&](const std::exception_ptr& failed, const Holdfast& hf) { opened = !failed && hf; });
  asio::steady_timer timer(context, 20ms);
  timer.async_wait([&](auto) {
    EXPECT_FALSE(opened);
    server->resume();
  });
  context.run();
  EXPECT_EQ(opened, true);
}

TEST_F(AsioOpenOfASilentServer, IsCancelledAtOnceAndClosesWhatStillComes) {
  server->pause();
  asio::cancellation_signal signal;
  std::optional<ErrorCode> ended;
  async_open(
      context.get_executor(), url,
      asio::bind_cancellation_slot(signal.slot(), [&](const std::exception_ptr& failed, const Holdfast& hf) {
        ended = code_of(failed);
        EXPECT_FALSE(hf);
      }));
  asio::steady_timer timer(context, 20ms);
  timer.async_wait([&](auto) { signal.emit(asio::cancellation_type::terminal); });
  context.run();
  EXPECT_EQ(ended, ErrorCode::Aborted);
  server->resume();
  EXPECT_TRUE(eventually([&] { return !is_connected(); }));
}

TEST_F(AsioOpenOfASilentServer, LeavesNothingInAContextThatGoesFirst) {
  server->pause();
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = alive;
  {
    asio::io_context other;
    async_open(other.get_executor(), url, [alive](const std::exception_ptr&, const Holdfast&) {
      ADD_FAILURE() << "the context is gone";
    });
    alive.reset();
    other.poll();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired()) << "the handler was destroyed with its context";
  server->resume();
  EXPECT_TRUE(eventually([&] { return !is_connected(); }));
}

TEST_F(AsioOpenOfASilentServer, ATaskStoreIsOpenedForTheNextThoughTheFirstHasGivenUp) {
  auto hf = open(url);
  server->pause();
  asio::cancellation_signal signal;
  std::optional<ErrorCode> ended;
  async_tasks(context.get_executor(), hf,
              asio::bind_cancellation_slot(signal.slot(),
                                           [&](const std::exception_ptr& failed, const AsyncTasks& tasks) {
                                             ended = code_of(failed);
                                             EXPECT_FALSE(tasks);
                                           }));
  asio::post(context, [&] { signal.emit(asio::cancellation_type::terminal); });
  context.run();
  EXPECT_EQ(ended, ErrorCode::Aborted);
  server->resume();
  auto next = async_tasks(context.get_executor(), hf, asio::use_future);
  context.restart();
  context.run();
  EXPECT_EQ(next.get().blocking().create("alice").owner, "alice");
}

/// The answer, the signal and the end of the context, in every order.
TEST_F(AsioOpen, TheAnswerASignalAndTheEndOfTheContextMayComeTogether) {
  const TempDir directory;
  const auto url = "sqlite:" + (directory / "store.db").string();
  (void)open(url);
  std::size_t opened = 0;
  std::size_t aborted = 0;
  for (int round = 0; round < 60; ++round) {
    asio::cancellation_signal signal;
    std::optional<Result<Holdfast>> result;
    auto other = std::make_unique<asio::io_context>();
    async_open(other->get_executor(), round % 2 == 0 ? "memory:" : url,
               asio::bind_cancellation_slot(
                   signal.slot(), as_result([&](Result<Holdfast> hf) { result.emplace(std::move(hf)); })));
    other->run_for(std::chrono::microseconds(round * 20));
    if (!result && round % 3 != 0) {
      signal.emit(asio::cancellation_type::all);
      other->run();
      ASSERT_TRUE(result);
    }
    other.reset();
    if (!result) continue;
    if (*result) {
      EXPECT_FALSE((**result).locks().is_locked("k"));
      ++opened;
    } else {
      EXPECT_EQ(result->error().code(), ErrorCode::Aborted);
      ++aborted;
    }
  }
  EXPECT_GT(opened + aborted, 0U);
}

TEST_F(AsioOpen, WithoutAsioACallbackIsCompletedOnAnotherThread) {
  std::promise<std::pair<Result<Holdfast>, std::thread::id>> done;
  open("memory:", {}, {},
       [&](Result<Holdfast> hf) { done.set_value({std::move(hf), std::this_thread::get_id()}); });
  const auto [hf, thread] = done.get_future().get();
  EXPECT_EQ(hf->url(), "memory:");
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(AsioOpen, WhatIsStoppedBeforeItBeginsOpensNothing) {
  const TempDir directory;
  const auto file = directory / "store.db";
  std::stop_source stop;
  stop.request_stop();
  std::optional<ErrorCode> ended;
  open("sqlite:" + file.string(), {}, stop.get_token(),
       [&](const Result<Holdfast>& hf) { ended = hf.error().code(); });
  EXPECT_EQ(ended, ErrorCode::Aborted);
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace holdfast::test
