// Tasks for coroutines and callbacks: what the facade adds, and what must hold without a thread per
// operation. What it passes on is in the suite of the task rules.

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <atomic>
#include <filesystem>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <latch>
#include <thread>

#include "support/asio_thread.hpp"
#include "support/eventually.hpp"
#include "support/own_store.hpp"

namespace holdfast::test {
namespace {

using asio::awaitable;
using namespace asio::experimental::awaitable_operators;
using namespace std::chrono_literals;

Json parsed_json(std::string_view text) {
  return Json::parse(text).value_or_throw();
}

template <class F>
std::optional<ErrorCode> code_of(F&& call) {
  try {
    call();
    return std::nullopt;
  } catch (const Error& error) {
    return error.code();
  }
}

std::size_t threads_of_this_process() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

class AsioTasks : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "redis") {
      if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    }
    own.emplace(GetParam());
    holdfast.emplace(open(own->url()));
    blocking.emplace(holdfast->tasks({.max_tasks_per_owner = 0}));
    tasks.emplace(asio.executor(), *blocking);
  }
  /// Runs the coroutine to its end on the context's thread; what it throws goes on to the test.
  void run(awaitable<void> body) { asio::co_spawn(asio.executor(), std::move(body), asio::use_future).get(); }
  [[nodiscard]] bool is_locked(const std::string& id) {
    return holdfast->locks().is_locked(Tasks::lock_key("alice", id));
  }

  std::optional<OwnStore> own;
  AsioThread asio;
  std::optional<Holdfast> holdfast;
  std::optional<Tasks> blocking;
  std::optional<AsyncTasks> tasks;
};

TEST_P(AsioTasks, ACoroutineAsksForATaskAndAnotherDoesIt) {
  run([](AsyncTasks& on) -> awaitable<void> {
    const auto made = co_await on.create(
        "alice", {.method = "m", .variables = parsed_json(R"({"a":1})"), .request_key = "r"});
    auto claim = co_await on.claim("alice", made.id, {.ttl = 30s});
    EXPECT_EQ((co_await claim.set_variables(parsed_json(R"({"b":2})"))).variables.str(), R"({"a":1,"b":2})");
    EXPECT_EQ((co_await claim.update_status(TaskStatus::input_required, "which?")).status_message, "which?");
    EXPECT_EQ((co_await claim.update_status(TaskStatus::working)).status, TaskStatus::working);
    EXPECT_TRUE(claim.guard().still_held());
    EXPECT_EQ((co_await claim.complete(parsed_json("42"), "done")).status, TaskStatus::completed);
    EXPECT_EQ((co_await on.wait("alice", made.id))->result.str(), "42");
    EXPECT_EQ((co_await on.get_result("alice", made.id))->str(), "42");
    EXPECT_EQ((co_await on.list("alice", {.status = TaskStatus::completed})).tasks.size(), 1U);
    EXPECT_TRUE(co_await on.remove("alice", made.id));
    ErrorCode code{};
    try {
      (void)co_await on.fail("alice", made.id, "too late");
    } catch (const Error& error) {
      code = error.code();
    }
    EXPECT_EQ(code, ErrorCode::NotFound);
  }(*tasks));
}

TEST_P(AsioTasks, AListMayBeAskedForWithoutSayingOfWhat) {
  const auto id = blocking->create("alice").id;
  run([](AsyncTasks& on, AsyncLocks locks, std::string task) -> awaitable<void> {
    const auto page = co_await on.list("alice");
    EXPECT_EQ(page.tasks.at(0).id, task);
    EXPECT_EQ((co_await on.owners()).owners.size(), 1U);
    const auto feed = co_await on.follow();
    EXPECT_TRUE(feed);
    EXPECT_TRUE((co_await locks.list_raw()).locks.empty());
  }(*tasks, AsyncLocks(asio.executor(), holdfast->locks()), id));
}

TEST_P(AsioTasks, ACoroutineKeepsARegister) {
  run([](AsyncLocks locks, AsyncRegister state) -> awaitable<void> {
    auto guard = co_await locks.lock("leader");
    const FencingToken fence{.authority = guard.authority(), .lock_key = guard.key(), .fence = guard.fence()};
    EXPECT_FALSE(co_await state.get());
    EXPECT_EQ(co_await state.put("one", fence), 1U);
    EXPECT_EQ((co_await state.bind(fence))->text, "one");
    EXPECT_TRUE(co_await state.rebind(fence));
    EXPECT_EQ((co_await state.get())->written_by.fence, fence.fence);
  }(AsyncLocks(asio.executor(), holdfast->locks()), AsyncRegister(asio.executor(),
                                                                  holdfast->fenced_register("state"))));
}

TEST_P(AsioTasks, HandlersRunOnTheirOwnExecutorWhoeverAnswers) {
  const auto id = blocking->create("alice").id;
  AsioThread other;
  std::promise<std::thread::id> ran_on;
  tasks->get("alice", id, asio::bind_executor(other.executor(), [&](const std::exception_ptr&, const Task&) {
               ran_on.set_value(std::this_thread::get_id());
             }));
  EXPECT_EQ(ran_on.get_future().get(), other.id());
  std::promise<std::thread::id> by_default;
  tasks->claim("alice", id, {}, [&](const std::exception_ptr&, const AsyncClaim&) {
    by_default.set_value(std::this_thread::get_id());
  });
  EXPECT_EQ(by_default.get_future().get(), asio.id());
}

TEST_P(AsioTasks, ArgumentsMayEndBeforeTheOperationBegins) {
  const auto id = blocking->create("alice").id;
  run([](AsyncTasks& on, std::string task) -> awaitable<void> {
    auto owner = std::make_unique<std::string>("alice");
    auto name = std::make_unique<std::string>(task);
    auto later = on.set_variables(*owner, *name, parsed_json(R"({"a":1})"));
    owner.reset();
    name.reset();
    EXPECT_EQ((co_await std::move(later)).id, task);
  }(*tasks, id));
}

TEST_P(AsioTasks, BadArgumentsReachTheHandlerToo) {
  EXPECT_EQ(
      code_of([&] { asio.await({}, [&](auto token) { return tasks->get("", "x", std::move(token)); }); }),
      ErrorCode::AnonymousOwner);
  EXPECT_EQ(code_of([&] {
              asio.await({}, [&](auto token) { return tasks->fail("alice", "x", "\xff", std::move(token)); });
            }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] {
              asio.await({}, [&](auto token) { return tasks->claim("alice", "\xff", {}, std::move(token)); });
            }),
            ErrorCode::InvalidArgument);
  AsyncClaim empty;
  EXPECT_FALSE(empty);
  empty = AsyncClaim(asio.executor(), Claim());
  EXPECT_EQ(code_of([&] {
              asio.await({},
                         [&](auto token) { return empty.complete(parsed_json("1"), {}, std::move(token)); });
            }),
            ErrorCode::InvalidArgument);
}

TEST_P(AsioTasks, WhatIsStoppedBeforeItBeginsDoesNothing) {
  const auto id = blocking->create("alice").id;
  std::stop_source stopped;
  stopped.request_stop();
  const auto stop = stopped.get_token();
  const auto aborted = [](auto begin) {
    std::promise<std::optional<ErrorCode>> code;
    begin([&code](const auto& result) {
      code.set_value(result ? std::nullopt : std::optional(result.error().code()));
    });
    return code.get_future().get() == ErrorCode::Aborted;
  };
  EXPECT_TRUE(aborted([&](auto done) { blocking->start(operation::GetTask{"alice", id}, stop, done); }));
  EXPECT_TRUE(aborted([&](auto done) {
    blocking->start(operation::CreateTask{"alice", detail::owned(NewTask())}, stop, done);
  }));
  EXPECT_TRUE(aborted([&](auto done) {
    blocking->start(operation::UpdateTaskStatus{"alice", id, TaskStatus::failed}, stop, done);
  }));
  EXPECT_TRUE(aborted([&](auto done) { blocking->start(operation::RemoveTask{"alice", id}, stop, done); }));
  EXPECT_TRUE(aborted([&](auto done) {
    blocking->start(operation::ListTasksOfOwner{"alice", detail::owned(ListTasks())}, stop, done);
  }));
  EXPECT_TRUE(
      aborted([&](auto done) { blocking->start(operation::AwaitTask{"alice", id, 1h}, stop, done); }));
  EXPECT_TRUE(aborted([&](auto done) { blocking->start(operation::ClaimTask{"alice", id}, stop, done); }));
  EXPECT_FALSE(is_locked(id));
  EXPECT_EQ(blocking->get("alice", id).version, 1U);
  EXPECT_EQ(blocking->list("alice").tasks.size(), 1U);
}

TEST_P(AsioTasks, AClaimCancelledWhileItWaitsForTheLockHoldsNothing) {
  const auto id = blocking->create("alice").id;
  auto holder = blocking->claim("alice", id);
  std::stop_source stop;
  std::thread canceller([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  EXPECT_EQ(code_of([&] {
              (void)asio.await(stop.get_token(), [&](auto token) {
                return tasks->claim("alice", id, {.wait = no_time_limit}, token);
              });
            }),
            ErrorCode::Aborted);
  canceller.join();
  EXPECT_TRUE(holder.release());
  EXPECT_FALSE(is_locked(id));
}

TEST_P(AsioTasks, ACancelledClaimIsEitherMadeOrHoldsNothing) {
  const auto id = blocking->create("alice").id;
  for (int round = 0; round < 30; ++round) {
    std::stop_source stop;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 40));
      stop.request_stop();
    });
    const auto code = code_of([&] {
      auto claim = asio.await(stop.get_token(), [&](auto token) {
        return tasks->claim("alice", id, {.wait = no_time_limit}, token);
      });
      EXPECT_TRUE(claim.guard().still_held());
      EXPECT_TRUE(claim.release(asio::use_future).get());
    });
    canceller.join();
    EXPECT_EQ(code.value_or(ErrorCode::Aborted), ErrorCode::Aborted);
    EXPECT_TRUE(eventually([&] { return !is_locked(id); })) << "round " << round;
  }
}

TEST_P(AsioTasks, AWaitBesideATimerEndsWithIt) {
  const auto id = blocking->create("alice").id;
  run([](AsyncTasks& on, std::string task) -> awaitable<void> {
    asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
    const auto first = co_await (on.wait("alice", task) || timer.async_wait(asio::use_awaitable));
    EXPECT_EQ(first.index(), 1U);
  }(*tasks, id));
}

TEST_P(AsioTasks, WhatAWaitIsForRunsWhereItMayBlockAndMayThrow) {
  const auto id = blocking->create("alice").id;
  std::thread::id ran_on;
  const auto task = tasks
                        ->wait(
                            "alice", id, 10s,
                            [&](const Task&) {
                              ran_on = std::this_thread::get_id();
                              (void)blocking->set_variables("alice", id, parsed_json(R"({"seen":true})"));
                              return true;
                            },
                            asio::use_future)
                        .get();
  ASSERT_TRUE(task);
  EXPECT_NE(ran_on, asio.id());
  const auto throws = [](const Task&) -> bool { throw std::runtime_error("no idea"); };
  EXPECT_EQ(code_of([&] {
              asio.await({},
                         [&](auto token) { return tasks->wait("alice", id, 10s, throws, std::move(token)); });
            }),
            ErrorCode::Internal);
  EXPECT_THROW((void)blocking->wait("alice", id, 10s, throws), std::runtime_error);
}

TEST_P(AsioTasks, AThousandWaitOnOneThreadAndAreWoken) {
  const int count = GetParam() == "sqlite" ? 100 : 1000;  // commits to disk are slow
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(blocking->create("alice").id);
  std::atomic<int> woken = 0;
  std::latch all(count);
  for (const auto& id : ids) {
    asio::co_spawn(
        asio.executor(),
        [](AsyncTasks& on, std::string task, std::atomic<int>& ended) -> awaitable<void> {
          const auto end = co_await on.wait("alice", task);
          if (end && end->status == TaskStatus::failed) ++ended;
        }(*tasks, id, woken),
        [&all](const std::exception_ptr&) { all.count_down(); });
  }
  const auto threads = threads_of_this_process();
  EXPECT_LT(threads, 40U);
  for (const auto& id : ids) (void)blocking->fail("alice", id);
  all.wait();
  EXPECT_EQ(woken, count);
}

TEST_P(AsioTasks, ClaimsHaveNoThreadsOfTheirOwn) {
  std::vector<AsyncClaim> claims;
  const auto claim_more = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto id = blocking->create("alice").id;
      claims.push_back(tasks->claim("alice", id, {.ttl = 60s}, asio::use_future).get());
    }
  };
  claim_more(10);
  const auto with_ten = threads_of_this_process();
  claim_more(40);
  // Pools may still grow to their few threads.
  EXPECT_LE(threads_of_this_process(), with_ten + 8);
  std::vector<Claim> held;
  for (int i = 0; i < 20; ++i) held.push_back(blocking->claim("alice", blocking->create("alice").id));
  EXPECT_LE(threads_of_this_process(), with_ten + 8);
  // All of them are watched.
  for (const auto& claim : claims) (void)blocking->cancel("alice", claim.task().id);
  for (const auto& claim : held) (void)blocking->cancel("alice", claim.task().id);
  for (auto& claim : claims) EXPECT_TRUE(eventually([&] { return claim.stopped().stop_requested(); }));
  for (auto& claim : held) EXPECT_TRUE(eventually([&] { return claim.stopped().stop_requested(); }));
}

TEST_P(AsioTasks, AStoppedWorkersCallbackMayBlockWithoutHoldingUpTheOthers) {
  const auto first = blocking->create("alice").id;
  const auto second = blocking->create("alice").id;
  auto blocked = tasks->claim("alice", first, {}, asio::use_future).get();
  auto other = blocking->claim("alice", second);
  std::latch entered(1);
  std::latch go_on(1);
  const std::stop_callback blocks(blocked.stopped(), [&] {
    entered.count_down();
    go_on.wait();
  });
  (void)blocking->cancel("alice", first);
  entered.wait();
  (void)blocking->cancel("alice", second);
  EXPECT_TRUE(eventually([&] { return other.stopped().stop_requested(); }));
  EXPECT_EQ(tasks->get("alice", first, asio::use_future).get().status, TaskStatus::cancelled);
  blocked = AsyncClaim();  // does not wait for it
  go_on.count_down();
}

awaitable<void> sleep_for(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

TEST_P(AsioTasks, AWorkerStopsWhenItsTaskIsCancelled) {
  const auto id = blocking->create("alice").id;
  run([](AsyncTasks& on, std::string task) -> awaitable<void> {
    auto claim = co_await on.claim("alice", task);
    co_await on.cancel("alice", task);
    const auto ended = co_await (sleep_for(1h) || claim.wait_stopped());
    EXPECT_EQ(ended.index(), 1U);
    EXPECT_TRUE(claim.cancelled());
    EXPECT_TRUE(co_await claim.wait_stopped(as_result)) << "stopped already";
  }(*tasks, id));
}

TEST_P(AsioTasks, AWorkerStopsWhenItsLockIsLost) {
  const auto id = blocking->create("alice").id;
  run([](AsyncTasks& on, std::string task) -> awaitable<void> {
    auto claim = co_await on.claim("alice", task, {.ttl = 1s, .max_hold = 50ms});
    const auto ended = co_await (sleep_for(1h) || claim.wait_stopped());
    EXPECT_EQ(ended.index(), 1U);
    EXPECT_EQ(claim.guard().loss_reason(), LossReason::max_hold);
  }(*tasks, id));
}

TEST_P(AsioTasks, WorkThatIsDoneEndsTheWaitAndLeavesTheClaim) {
  const auto id = blocking->create("alice").id;
  run([](AsyncTasks& on, std::string task) -> awaitable<void> {
    auto claim = co_await on.claim("alice", task);
    const auto ended = co_await (sleep_for(1ms) || claim.wait_stopped());
    EXPECT_EQ(ended.index(), 0U);
    EXPECT_EQ((co_await claim.complete(parsed_json("1"))).status, TaskStatus::completed);
  }(*tasks, id));
}

TEST_P(AsioTasks, AWaitForAStopEndsWithItsClaim) {
  const auto next = [&] {
    return tasks->claim("alice", blocking->create("alice").id, {}, asio::use_future).get();
  };
  const auto ended = [](auto& wait) { return wait.get().error().code(); };
  auto released = next();
  auto first = released.wait_stopped(as_result(asio::use_future));
  EXPECT_TRUE(released.release(asio::use_future).get());
  EXPECT_EQ(ended(first), ErrorCode::Aborted);
  auto completed = next();
  auto second = completed.wait_stopped(as_result(asio::use_future));
  (void)completed.complete(parsed_json("1"), {}, asio::use_future).get();
  EXPECT_EQ(ended(second), ErrorCode::Aborted);
  std::optional dropped = next();
  auto third = dropped->wait_stopped(as_result(asio::use_future));
  dropped.reset();
  EXPECT_EQ(ended(third), ErrorCode::Aborted);
}

/// Any of the three may end the wait, and what it stands on goes at the same moment.
TEST_P(AsioTasks, AStopASignalAndTheEndOfTheClaimMayComeTogether) {
  for (int round = 0; round < 20; ++round) {
    const auto id = blocking->create("alice").id;
    std::optional claim = blocking->claim("alice", id);
    std::promise<std::optional<ErrorCode>> done;
    std::stop_source stop;
    claim->wait_stopped(stop.get_token(), [&](const Status& status) {
      done.set_value(status ? std::nullopt : std::optional(status.error().code()));
    });
    std::thread canceller([&] { (void)blocking->cancel("alice", id); });
    std::thread stopper([&] {
      if (round % 2 == 0) stop.request_stop();
    });
    claim.reset();
    canceller.join();
    stopper.join();
    EXPECT_EQ(done.get_future().get().value_or(ErrorCode::Aborted), ErrorCode::Aborted);
  }
}

TEST_P(AsioTasks, TheDestructorReleasesInTheBackground) {
  const auto id = blocking->create("alice").id;
  {
    const auto claim = tasks->claim("alice", id, {.ttl = 60s}, asio::use_future).get();
  }
  const auto again = tasks->claim("alice", id, {.wait = 30s}, asio::use_future).get();
  EXPECT_TRUE(again);
}

TEST_P(AsioTasks, WritesUnderWayOutliveTheirClaim) {
  const auto id = blocking->create("alice").id;
  std::future<Task> end;
  {
    auto claim = blocking->claim("alice", id, {.ttl = 60s});
    auto done = std::make_shared<std::promise<Task>>();
    end = done->get_future();
    claim.set_variables(parsed_json(R"({"a":1})"), {}, [done](Result<Task> task) {
      if (task) {
        done->set_value(*std::move(task));
      } else {
        done->set_exception(std::make_exception_ptr(task.error()));
      }
    });
  }
  EXPECT_EQ(end.get().variables.str(), R"({"a":1})") << "nobody else had claimed it";
  EXPECT_TRUE(eventually([&] { return !is_locked(id); }));
}

TEST_P(AsioTasks, AllOfItMayGoAtOnce) {
  // Whatever is under way then keeps its engine until it has ended, on a thread of that engine as like as
  // not.
  for (int round = 0; round < 20; ++round) {
    auto mine = open(own->url());
    auto store = mine.tasks();
    AsyncTasks on(asio.executor(), store);
    const auto id = store.create("alice").id;
    auto claim = on.claim("alice", id, {}, asio::use_future).get();
    std::stop_source stop;
    const auto ended = std::make_shared<std::promise<void>>();
    store.start(operation::AwaitTask{"alice", id}, stop.get_token(),
                [ended](const Result<std::optional<Task>>&) { ended->set_value(); });
    std::thread stopper([&] { stop.request_stop(); });
    {
      const AsyncClaim gone = std::move(claim);
      const AsyncTasks gone_too = std::move(on);
      const Tasks and_this = std::move(store);
      const Holdfast and_that = std::move(mine);
    }
    stopper.join();
    ended->get_future().get();
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, AsioTasks, testing::Values("memory", "sqlite", "redis"),
                         [](const auto& instance) { return instance.param; });

TEST(AsioTasksOnAFile, ADestructorDoesNotWaitForAStoreThatIsBusy) {
  const OwnStore own("sqlite");
  AsioThread asio;
  auto holdfast = open(own.url());
  auto store = holdfast.tasks();
  const auto id = store.create("alice").id;
  AsyncTasks tasks(asio.executor(), store);
  auto claim = tasks.claim("alice", id, {.ttl = 600s}, asio::use_future).get();
  auto other = open(own.url());  // whose questions do not queue behind the release

  sqlite3* writer = nullptr;
  ASSERT_EQ(sqlite3_open(own.file().c_str(), &writer), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(writer, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  claim = AsyncClaim();
  EXPECT_TRUE(other.locks().is_locked(Tasks::lock_key("alice", id)))
      << "the lock cannot have been released yet";
  ASSERT_EQ(sqlite3_exec(writer, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_TRUE(eventually([&] { return !other.locks().is_locked(Tasks::lock_key("alice", id)); }));
  sqlite3_close(writer);
}

}  // namespace
}  // namespace holdfast::test
