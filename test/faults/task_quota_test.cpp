// A quota is exact whoever creates: many creators, in several processes, at once.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <iostream>
#include <thread>

#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

constexpr int processes = 5;
constexpr int threads_each = 10;
constexpr int creates_each = 4;  // 200 attempts for 100 places
constexpr std::size_t quota = 100;

/// What the creators tell, in memory that all of them share.
struct Tally {
  std::atomic<int> ready, written, refused, failed;
  std::atomic<bool> go;
};

template <class Open>
void create_in_this_process(Open& open, Tally& tally, int self) {
  const auto backend = open();
  std::vector<std::jthread> threads;
  for (int t = 0; t < threads_each; ++t) {
    threads.emplace_back([&, t] {
      ++tally.ready;
      while (!tally.go) std::this_thread::sleep_for(1ms);
      for (int i = 0; i < creates_each; ++i) {
        const auto name = std::to_string(self) + "." + std::to_string(t) + "." + std::to_string(i);
        const auto answer =
            call(*backend,
                 CreateRecord{.key = record_key("owner:" + name), .data = record_data("{}"), .quota = quota});
        if (!answer) {
          std::cerr << answer.error().what() << std::endl;
          ++tally.failed;
        } else if (std::holds_alternative<Written>(*answer)) {
          ++tally.written;
        } else if (std::holds_alternative<QuotaReached>(*answer)) {
          ++tally.refused;
        }
      }
    });
  }
}

/// `open` makes a client of the one store; it is called once in each process. None of ours is open yet: a
/// process that has threads should not fork.
template <class Open>
void expect_an_exact_quota(Open&& open) {
  auto* tally = static_cast<Tally*>(
      mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(tally, MAP_FAILED);
  std::vector<pid_t> pids;
  for (int self = 0; self < processes; ++self) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      try {
        create_in_this_process(open, *tally, self);
        _exit(0);
      } catch (const std::exception& error) {
        std::cerr << "a creator ended: " << error.what() << std::endl;
        _exit(1);
      }
    }
    pids.push_back(pid);
  }
  EXPECT_TRUE(eventually([&] { return tally->ready == processes * threads_each; }, 30s));
  tally->go = true;
  for (const pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(tally->failed, 0);
  EXPECT_EQ(tally->written, static_cast<int>(quota));
  EXPECT_EQ(tally->refused, processes * threads_each * creates_each - static_cast<int>(quota));
  munmap(tally, sizeof(Tally));
  EXPECT_EQ(tasks_of(*open(), "owner").size(), quota);
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
