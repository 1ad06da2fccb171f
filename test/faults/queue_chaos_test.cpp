// Workers that are killed and stopped past their leases, again and again: every task ends once, and what a
// late worker says is refused.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "support/processes.hpp"
#include "support/redis_server.hpp"
#include "support/seeded.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

constexpr auto chaos_lease = 400ms;

/// A number from the environment, for long runs by hand: HOLDFAST_CHAOS_TASKS=10000 HOLDFAST_CHAOS_WORKERS=8
/// HOLDFAST_CHAOS_WORK_MS=480 HOLDFAST_CHAOS_EVERY_MS=200 takes about five minutes.
int setting(const char* name, int by_default) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::stoi(given) : by_default;
}
const int chaos_tasks = setting("HOLDFAST_CHAOS_TASKS", 400);
const int chaos_workers = setting("HOLDFAST_CHAOS_WORKERS", 4);
const std::chrono::milliseconds chaos_every(setting("HOLDFAST_CHAOS_EVERY_MS", 100));
/// The longest time that an attempt works.
const int chaos_work_ms = setting("HOLDFAST_CHAOS_WORK_MS", 40);
/// HOLDFAST_CHAOS_APPENDFSYNC=everysec: what a crash of the server alone loses with it.
std::string appendfsync() {
  const char* given = std::getenv("HOLDFAST_CHAOS_APPENDFSYNC");
  return given != nullptr ? given : "always";
}

/// Shared by all processes of the test.
struct QueueTally {
  std::atomic<int> accepted = 0;
  std::atomic<int> refused = 0;
  std::atomic<int> others = 0;    ///< outcomes that ended in any other way
  std::atomic<int> repeated = 0;  ///< outcomes that were sent again, because no answer came
  std::atomic<int> added = 0;
  std::atomic<bool> all_added = false;
  std::atomic<int> unfinished = chaos_tasks;
  std::atomic<bool> over = false;
};

/// Runs `work` in a process of its own. The parent opens the store only when no process is to be forked any
/// more: an SQLite file that a parent has open cannot be opened by its child.
pid_t forked(const std::function<void()>& work) {
  const pid_t pid = checked_fork();
  if (pid != 0) return pid;
  try {
    work();
    ::_exit(0);
  } catch (const std::exception& error) {
    std::cerr << "a process of the test ended: " << error.what() << std::endl;
    ::_exit(9);
  }
}

struct OpenQueue {
  Holdfast holdfast;
  Queue queue;
};
/// A process may start while the server is down.
OpenQueue open_when_up(const std::string& url) {
  for (;;) {
    try {
      auto holdfast = open(url);
      auto queue = holdfast.queue("chaos");
      return {std::move(holdfast), std::move(queue)};
    } catch (const Error& error) {
      if (!error.transient()) throw;
      std::this_thread::sleep_for(20ms);
    }
  }
}

/// A server that is restarted answers some outcomes not at all: they are sent again until they are answered.
void complete(Job& job, const Json& result, QueueTally& tally) {
  for (;;) {
    try {
      job.complete(result);
      ++tally.accepted;
      return;
    } catch (const Error& error) {
      if (!error.transient()) {
        const bool is_late = error.code() == ErrorCode::StaleFence;
        if (!is_late) std::cerr << "an outcome ended with: " << error.what() << std::endl;
        ++(is_late ? tally.refused : tally.others);
        return;
      }
      ++tally.repeated;
      std::this_thread::sleep_for(20ms);
    }
  }
}

void work_until_over(const std::string& url, QueueTally& tally) {
  const auto [holdfast, queue] = open_when_up(url);
  std::mt19937 random(static_cast<unsigned>(::getpid()));
  while (!tally.over) {
    std::optional<Job> job;
    try {
      job = queue.claim_next({.lease = chaos_lease, .wait = 200ms});
    } catch (const Error& error) {
      // For example an SQLite file that a stopped process keeps busy.
      if (!error.transient()) throw;
    }
    if (!job) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % static_cast<unsigned>(chaos_work_ms)));
    const nlohmann::json result{{"attempt", job->attempt()}, {"fence", job->fence().to_string()}};
    complete(*job, Json::parse(result.dump()).value_or_throw(), tally);
  }
}

/// Adds tasks, no more than workers can begin with: the task of a worker that is stopped goes behind the
/// others, and its late outcome is refused only if another worker has claimed the task by then. Goes on,
/// within limits, until that has happened.
void add_tasks(const std::string& url, QueueTally& tally) {
  const auto [holdfast, queue] = open_when_up(url);
  while (!tally.over &&
         (tally.added < chaos_tasks || (tally.refused == 0 && tally.added < 4 * chaos_tasks))) {
    try {
      if (queue.counts().ready > static_cast<std::size_t>(chaos_workers)) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      // A server that is restarted may not answer: the key keeps the task from being added twice.
      const auto key = std::to_string(tally.added);
      (void)queue.add({.max_attempts = 1000, .request_key = key});
      ++tally.added;
    } catch (const Error& error) {
      if (!error.transient()) throw;
    }
  }
  tally.all_added = true;
}

void count_until_over(const std::string& url, QueueTally& tally) {
  const auto [holdfast, queue] = open_when_up(url);
  while (!tally.over) {
    try {
      const bool all_added = tally.all_added;
      const auto counts = queue.counts();
      tally.unfinished = static_cast<int>(counts.ready + counts.delayed + counts.leased + counts.exhausted) +
                         (all_added ? 0 : 1);
    } catch (const Error& error) {
      if (!error.transient()) throw;
    }
    std::this_thread::sleep_for(20ms);
  }
}

/// All tasks of the queue, page by page.
std::vector<Task> all_tasks(const Queue& queue) {
  std::vector<Task> all;
  TaskPage page;
  do {
    page = queue.list({.cursor = page.cursor, .limit = 1000});
    std::ranges::move(page.tasks, std::back_inserter(all));
  } while (!page.cursor.empty());
  return all;
}

/// `between`: called after each kill or stop of a worker.
void disturb(const std::string& url, const std::function<void()>& between = [] {}) {
  const Shared<QueueTally> tally;
  const pid_t adding = forked([&] { add_tasks(url, *tally); });
  const auto start_worker = [&] { return forked([&] { work_until_over(url, *tally); }); };
  const pid_t counting = forked([&] { count_until_over(url, *tally); });
  std::vector<pid_t> pids;
  for (int i = 0; i < chaos_workers; ++i) pids.push_back(start_worker());

  Seeded random;
  SCOPED_TRACE(random.seed());
  std::optional<pid_t> stopped;
  auto continue_at = BootClock::now();
  const auto give_up_at = BootClock::now() + 60s + std::chrono::milliseconds(chaos_tasks) * chaos_work_ms;
  while (tally->unfinished > 0 && BootClock::now() < give_up_at) {
    std::this_thread::sleep_for(chaos_every);
    if (stopped && BootClock::now() >= continue_at) {
      ::kill(*stopped, SIGCONT);
      stopped.reset();
    }
    auto& victim = pids[random.below(pids.size())];
    if (!stopped) {
      stopped = victim;
      continue_at = BootClock::now() + 3 * chaos_lease;
      ::kill(victim, SIGSTOP);
    } else if (victim != *stopped) {
      ::kill(victim, SIGKILL);
      ASSERT_EQ(::waitpid(victim, nullptr, 0), victim);
      victim = start_worker();
    }
    between();
  }
  EXPECT_EQ(tally->unfinished, 0);
  tally->over = true;
  if (stopped) ::kill(*stopped, SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(adding, &status, 0), adding);
  EXPECT_EQ(status, 0) << "not all tasks were added";
  for (const pid_t worker : pids) {
    ASSERT_EQ(::waitpid(worker, &status, 0), worker);
    EXPECT_EQ(status, 0) << "a worker failed";
  }
  ASSERT_EQ(::waitpid(counting, &status, 0), counting);

  const auto holdfast = open(url);
  const auto queue = holdfast.queue("chaos");
  const auto tasks = all_tasks(queue);
  ASSERT_EQ(tasks.size(), static_cast<std::size_t>(tally->added));
  unsigned deaths = 0;
  for (const auto& task : tasks) {
    EXPECT_EQ(task.status, TaskStatus::completed);
    EXPECT_EQ(task.version, 2U) << "it was written once, at its end";
    const auto result = nlohmann::json::parse(task.result.str());
    EXPECT_EQ(result["attempt"], task.queue->attempts) << "of the last worker";
    EXPECT_EQ(result["fence"], task.bound_to->fence.to_string());
    // Each attempt but the last was a death; the last too, if its lease had expired before its outcome came,
    // and no other worker had claimed the task since.
    EXPECT_LE(task.queue->attempts, task.queue->deaths + 1);
    EXPECT_GE(task.queue->attempts, task.queue->deaths);
    deaths += task.queue->deaths;
  }
  // A worker may be killed between the answer and its count.
  EXPECT_LE(tally->accepted, tally->added);
  EXPECT_EQ(tally->others, 0);
  EXPECT_GT(deaths, 0U);
  EXPECT_GT(tally->refused, 0) << "no late worker was refused";
  testing::Test::RecordProperty("refused", tally->refused.load());
  testing::Test::RecordProperty("deaths", static_cast<int>(deaths));
  std::cout << "late outcomes refused: " << tally->refused << ", deaths: " << deaths
            << ", outcomes sent again: " << tally->repeated << '\n';
  for (const auto& task : tasks) EXPECT_TRUE(queue.remove(task.id));
  const auto counts = queue.counts();
  EXPECT_EQ(counts.records + counts.ready + counts.delayed + counts.leased + counts.exhausted, 0U);
  EXPECT_TRUE(holdfast.queues().queues.empty()) << "nothing is left behind";
}

TEST(QueueChaos, EveryTaskEndsOnceOnSqlite) {
  const TempDir directory;
  disturb("sqlite:" + (directory.path() / "chaos.db").string());
}

TEST(QueueChaos, EveryTaskEndsOnceOnRedis) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  disturb(server.url());
}

/// With `appendfsync always` nothing that was answered is lost by a crash of the server.
TEST(QueueChaos, EveryTaskEndsOnceOnARedisThatCrashes) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server({.persistent = true, .config = {"appendfsync " + appendfsync()}});
  int round = 0;
  disturb(server.url(), [&] {
    if (++round % 10 != 0) return;
    server.kill();
    server.start();
  });
}

}  // namespace
}  // namespace holdfast::test
