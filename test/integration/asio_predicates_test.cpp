// What a wait for a task is for: user code, which may take its time wherever it runs.

#include <gtest/gtest.h>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <latch>
#include <memory>

#include "support/asio_thread.hpp"
#include "support/eventually.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class AsioPredicates : public testing::TestWithParam<std::string> {
 protected:
  TempDir directory;
  Holdfast holdfast =
      open(GetParam() == "memory" ? "memory:" : "sqlite:" + (directory / "store.db").string());
  AsioThread asio;
  AsyncTasks tasks{asio.executor(), holdfast.tasks()};
};

/// The destructor of one wait's predicate lasts until another wait has ended.
TEST_P(AsioPredicates, OneEndsWhereItHoldsNobodyUp) {
  const auto id = tasks.blocking().create("alice").id;
  std::atomic<bool> asked = false, ending = false, other_ended = false, in_time = false, ended = false;
  asio::cancellation_signal first, second;
  std::shared_ptr<void> slow(nullptr, [&](void*) {
    ending = true;
    in_time = eventually([&] { return other_ended.load(); });
  });
  asio::post(asio.executor(), [&] {
    const auto never_so = [&asked, slow = std::move(slow)](const Task&) {
      asked = true;
      return false;
    };
    tasks.wait("alice", id, no_time_limit, never_so,
               asio::bind_cancellation_slot(first.slot(), [&](const std::exception_ptr&,
                                                              const std::optional<Task>&) { ended = true; }));
    tasks.wait(
        "alice", id, no_time_limit,
        asio::bind_cancellation_slot(second.slot(), [&](const std::exception_ptr&,
                                                        const std::optional<Task>&) { other_ended = true; }));
  });
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  asio::post(asio.executor(), [&] { first.emit(asio::cancellation_type::terminal); });
  EXPECT_TRUE(eventually([&] { return ending.load(); }));
  asio::post(asio.executor(), [&] { second.emit(asio::cancellation_type::terminal); });
  EXPECT_TRUE(eventually([&] { return ended.load(); }, 20s));
  EXPECT_TRUE(in_time);
}

TEST_P(AsioPredicates, ManyThatBlockDoNotHoldUpTheStore) {
  const auto id = tasks.blocking().create("alice").id;
  constexpr int blocked = 4;
  std::atomic<int> entered = 0, ended = 0;
  std::latch go(1);
  for (int i = 0; i < blocked; ++i) {
    tasks.wait(
        "alice", id, no_time_limit,
        [&](const Task&) {
          ++entered;
          go.wait();
          return true;
        },
        [&](const std::exception_ptr&, const std::optional<Task>&) { ++ended; });
  }
  EXPECT_TRUE(eventually([&] { return entered == blocked; }));
  std::atomic<bool> answered = false;
  tasks.get("alice", id, [&](const std::exception_ptr&, const Task&) { answered = true; });
  EXPECT_TRUE(eventually([&] { return answered.load(); }));
  go.count_down();
  EXPECT_TRUE(eventually([&] { return ended == blocked; }));
}

INSTANTIATE_TEST_SUITE_P(Engine, AsioPredicates, testing::Values("memory", "sqlite"),
                         [](const auto& engine) { return engine.param; });

}  // namespace
}  // namespace holdfast::test
