// How many threads an opened engine costs, whatever is built on it.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <holdfast/open.hpp>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "support/eventually.hpp"
#include "support/own_store.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

std::ptrdiff_t threads_here() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return std::distance(begin(all), end(all));
}

/// Threads of a test before this one may be about to end.
std::ptrdiff_t threads_at_rest() {
  auto count = threads_here();
  for (int unchanged = 0; unchanged < 20; ++unchanged) {
    std::this_thread::sleep_for(10ms);
    if (const auto now = threads_here(); std::exchange(count, now) != now) unchanged = 0;
  }
  return count;
}

class Threads : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "redis") {
      if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    }
    own.emplace(GetParam());
    std::thread([] {}).join();  // with the first one ThreadSanitizer starts its own
    before = threads_at_rest();
    holdfast.emplace(open(own->url()));
  }
  [[nodiscard]] std::ptrdiff_t started() const { return threads_here() - before; }

  std::optional<OwnStore> own;
  std::ptrdiff_t before = 0;
  std::optional<Holdfast> holdfast;
};

TEST_P(Threads, NoneIsStartedBeforeTheFirstGuard) {
  auto tasks = holdfast->tasks();
  const auto id = tasks.create("alice").id;
  (void)tasks.get("alice", id);
  const auto held = holdfast->locks().acquire("a");
  (void)holdfast->fenced_register("r").put(
      "text", {.authority = held.authority, .lock_key = "a", .fence = held.fence});
  EXPECT_TRUE(holdfast->locks().release(held.id.str()));
  EXPECT_EQ(started(), 0);
}

TEST_P(Threads, AtRestALockATaskAndARegisterShareThem) {
  // The timer's and one for user code; where a thread must block for it, one that renews; one that listens
  // for changes of the task.
  const std::map<std::string, std::ptrdiff_t> needed{{"memory", 3}, {"redis", 3}, {"sqlite", 4}};
  // Renewed every 1.05 s: every second it would, once it falls together with a look at the task, always do
  // so.
  const auto guard = holdfast->locks().lock("a", {.ttl = 3150ms});
  auto tasks = holdfast->tasks();
  const auto id = tasks.create("alice").id;
  const auto claim = tasks.claim("alice", id);
  auto state = holdfast->fenced_register("r");
  state.put("text", guard);
  // Some renewals, and some of the looks that a claim takes at its task each second.
  std::this_thread::sleep_for(2500ms);
  // Two of them at once may have needed another thread, which ends when it was idle for ten seconds.
  EXPECT_TRUE(eventually([&] { return started() == needed.at(GetParam()); }, 30s)) << started();
  EXPECT_TRUE(guard.still_held());
  EXPECT_FALSE(claim.stopped().stop_requested());
}

TEST_P(Threads, AnotherTasksOrRegisterUsesThoseThatThereAre) {
  const auto guard = holdfast->locks().lock("a");
  const FencingToken token{.authority = guard.authority(), .lock_key = guard.key(), .fence = guard.fence()};
  const auto put = [&](FencedRegister to) {
    std::promise<bool> written;
    to.put("text", token, {}, [&](const Result<std::uint64_t>& version) { written.set_value(version.ok()); });
    return written.get_future().get();
  };
  EXPECT_TRUE(put(holdfast->fenced_register("r0")));
  const auto with_one = started();
  for (int i = 1; i < 10; ++i) {
    EXPECT_TRUE(put(holdfast->fenced_register("r" + std::to_string(i))));
    std::promise<bool> created;
    holdfast->tasks().start(operation::CreateTask{"alice", detail::owned(NewTask{})}, {},
                            [&](const Result<Task>& task) { created.set_value(task.ok()); });
    EXPECT_TRUE(created.get_future().get());
  }
  // A step may begin when the thread of the one before is not idle yet: there are at most four for them.
  EXPECT_LE(started(), with_one + (GetParam() == "sqlite" ? 3 : 0));
}

INSTANTIATE_TEST_SUITE_P(Engines, Threads, testing::Values("memory", "sqlite", "redis"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace holdfast::test
