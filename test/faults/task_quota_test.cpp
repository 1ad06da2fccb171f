// A quota is exact whoever creates: many creators, in several processes, at once.

#include <gtest/gtest.h>

#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <thread>

#include "support/processes.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

constexpr int processes = 5;
constexpr int threads_each = 10;
constexpr int creates_each = 4;  // 200 attempts for 100 places
constexpr std::size_t quota = 100;

/// What the creators tell.
struct Tally {
  std::atomic<int> written{0}, refused{0};
};

/// Fifty creators. `open` makes a client of the one store; it is called in each process, and nothing is open
/// before.
template <class Open>
void expect_an_exact_quota(Open&& open) {
  const Shared<Tally> tally;
  in_processes(processes, [&](int self) {
    const auto backend = open();
    std::vector<std::jthread> threads;
    for (int t = 0; t < threads_each; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < creates_each; ++i) {
          const auto name = std::to_string(self) + "." + std::to_string(t) + "." + std::to_string(i);
          const auto answer = outcome(
              *backend,
              CreateRecord{.key = record_key("o:" + name), .data = record_data("{}"), .quota = quota});
          if (std::holds_alternative<Written>(answer)) ++tally->written;
          if (std::holds_alternative<QuotaReached>(answer)) ++tally->refused;
        }
      });
    }
    threads.clear();
    return true;
  });
  EXPECT_EQ(tally->written, static_cast<int>(quota));
  EXPECT_EQ(tally->refused, processes * threads_each * creates_each - static_cast<int>(quota));
  EXPECT_EQ(tasks_of(*open(), "o").size(), quota);
}

TEST(TaskQuota, IsExactOnAFileWithFiftyCreatorsInFiveProcesses) {
  // In memory: what is tested is the quota, not how long a busy disk takes to sync.
  const TempDir dir("/dev/shm");
  expect_an_exact_quota(
      [&] { return make_sqlite_storage_backend(dir / "shared.db", {.busy_timeout = 60s}).value_or_throw(); });
}

TEST(TaskQuota, IsExactOnRedisWithFiftyCreatorsInFiveProcesses) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  expect_an_exact_quota([&] { return make_redis_storage_backend(server.tcp()).value_or_throw(); });
}

}  // namespace
}  // namespace holdfast::test
