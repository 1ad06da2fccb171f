#include "runtime/worker_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <string>
#include <thread>

#include "support/eventually.hpp"

namespace holdfast::runtime {
namespace {

using namespace std::chrono_literals;
using Priority = WorkerPool::Priority;

TEST(WorkerPool, LimitedJobsThatBlockLeaveTheOtherThreads) {
  WorkerPool pool(3, 2);
  std::latch go(1);
  std::atomic<int> begun = 0;
  for (int i = 0; i < 5; ++i) {
    pool.post(
        [&] {
          ++begun;
          go.wait();
        },
        Priority::limited);
  }
  EXPECT_TRUE(test::eventually([&] { return begun == 2; }));
  EXPECT_FALSE(pool.try_post([] {}, Priority::limited));
  for (int i = 0; i < 10; ++i) {
    std::promise<void> ran;
    pool.post([&] { ran.set_value(); });
    ran.get_future().wait();
  }
  EXPECT_EQ(begun, 2);
  go.count_down();
  EXPECT_TRUE(test::eventually([&] { return begun == 5; }));
}

TEST(WorkerPool, LimitedJobsNeverTakeTheThreadThatIsKeptFree) {
  WorkerPool pool(2, 2, 1);  // as if the machine had no third thread to give
  std::latch go(1);
  std::atomic<int> begun = 0;
  for (int i = 0; i < 3; ++i) {
    pool.post(
        [&] {
          ++begun;
          go.wait();
        },
        Priority::limited);
  }
  EXPECT_TRUE(test::eventually([&] { return begun == 1; }));
  std::promise<void> ran;
  pool.post([&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(10s), std::future_status::ready) << "a loss must be reported";
  EXPECT_EQ(begun, 1);
  go.count_down();
  EXPECT_TRUE(test::eventually([&] { return begun == 3; }));
}

TEST(WorkerPool, FinishesLimitedJobsBeforeItEnds) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(2, 1, 1);
    for (int i = 0; i < 10; ++i) {
      pool.post(
          [&] {
            std::this_thread::sleep_for(1ms);
            ++ran;
          },
          Priority::limited);
    }
  }
  EXPECT_EQ(ran, 10);
}

TEST(WorkerPool, ALimitedJobThatNoThreadMayTakeRunsWhereItIsPosted) {
  WorkerPool pool(1, 1, 1);
  std::thread::id there;
  pool.post([&] { there = std::this_thread::get_id(); }, Priority::limited);
  EXPECT_EQ(there, std::this_thread::get_id());
  EXPECT_FALSE(pool.try_post([] {}, Priority::limited));
}

TEST(WorkerPool, OthersGoBeforeLimitedJobs) {
  WorkerPool pool(1);
  std::latch go(1);
  std::string order;
  pool.post([&] { go.wait(); });
  pool.post([&] { order += "limited "; }, Priority::limited);
  pool.post([&] { order += "first "; });
  go.count_down();
  std::promise<void> all;
  pool.post([&] { all.set_value(); }, Priority::limited);
  all.get_future().wait();
  EXPECT_EQ(order, "first limited ");
}

TEST(WorkerPool, AJobKnowsItsPoolAndPriority) {
  WorkerPool pool(1), other(1);
  std::promise<bool> known;
  pool.post(
      [&] {
        known.set_value(pool.runs_here(Priority::limited) && !pool.runs_here(Priority::first) &&
                        !other.runs_here(Priority::limited));
      },
      Priority::limited);
  EXPECT_TRUE(known.get_future().get());
  EXPECT_FALSE(pool.runs_here(Priority::first));
}

TEST(WorkerPool, IdleThreadsEndUntilOneIsLeft) {
  std::atomic<int> alive = 0;
  struct Alive {
    explicit Alive(std::atomic<int>& threads) : count(threads) { ++count; }
    ~Alive() { --count; }
    std::atomic<int>& count;
  };
  WorkerPool pool(8, 8, 0, 20ms);
  std::latch all_began(9);
  for (int i = 0; i < 8; ++i) {
    pool.post([&] {
      thread_local const Alive here(alive);
      all_began.arrive_and_wait();
    });
  }
  all_began.arrive_and_wait();
  // Work for one now and then does not keep the others.
  EXPECT_TRUE(test::eventually([&] {
    std::promise<void> ran;
    pool.post([&] { ran.set_value(); });
    ran.get_future().wait();
    return alive == 1;
  })) << alive;
}

}  // namespace
}  // namespace holdfast::runtime
