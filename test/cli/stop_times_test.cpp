#include "process/stop_times.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "process/stop_count.hpp"
#include "support/eventually.hpp"
#include "support/in_child.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using cli::StopCount;
using cli::StopTimes;

TEST(StopTimes, OfACommandAloneAreAMarginAndAGrace) {
  const auto times = StopTimes::of(30s);
  EXPECT_EQ(times.grace, 5s);
  EXPECT_EQ(times.kill(0), 500ms);
  EXPECT_EQ(times.term(0), 5s);
  EXPECT_LE(times.kill(6), 502ms);
  EXPECT_EQ(StopTimes::of(2s).kill(0), 100ms);
  EXPECT_EQ(StopTimes::of(100ms).kill(0), 10ms);
}

TEST(StopTimes, KillIsTheEarlierTheMoreIsToBeStopped) {
  const auto two = StopTimes::of(2s), six = StopTimes::of(6s);
  EXPECT_GE(two.kill(600), 100ms + 150ms) << "100 commands of six processes, and 100 ms to spare";
  EXPECT_GE(six.kill(1800), 300ms + 400ms) << "300, and 300 ms to spare";
  EXPECT_LE(six.kill(1800), six.grace) << "and TERM still comes first";
  for (unsigned n = 1; n < 5000; ++n) EXPECT_GE(two.kill(n), two.kill(n - 1));
}

TEST(StopTimes, KillIsNeverEarlierThanAThirdOfTheLeaseBeforeItsEnd) {
  for (const std::chrono::nanoseconds ttl : {50ms, 1000ms, 2000ms, 6000ms, 30000ms}) {
    const auto times = StopTimes::of(ttl);
    EXPECT_LE(times.kill(32767), std::max(ttl / 3, times.margin)) << ttl.count();
    EXPECT_LT(times.term(32767), times.late) << "it was counted before";
  }
}

TEST(StopTimes, TermIsNotLaterThanKill) {
  auto times = StopTimes::of(1s);
  times.grace = 0s;
  EXPECT_EQ(times.term(0), times.margin);
  EXPECT_EQ(times.term(5000), times.kill(5000));
}

TEST(StopTimes, AreCarefulWhereProcessesCannotBeCounted) {
  const auto times = StopTimes::of(6s);
  EXPECT_GT(times.kill(std::nullopt), times.kill(0) + 100ms);
  EXPECT_LE(times.kill(std::nullopt), times.grace);
}

/// In an IPC namespace of its own: the number is shared with every other run of this user, of other tests
/// too.
class SharedStopCount : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto counts = [] { return unshare(CLONE_NEWIPC) == 0 && StopCount().total() == 0U; };
    if (!in_child(counts)) {
      GTEST_SKIP() << "no IPC namespace or no System V semaphores to be had (needs root); not covered here";
    }
  }
  static bool alone(bool (*body)()) {
    return in_child([&] { return unshare(CLONE_NEWIPC) == 0 && body(); });
  }
};

TEST_F(SharedStopCount, HasWhatOtherProcessesAddedWhileTheyLive) {
  EXPECT_TRUE(alone([] {
    StopCount count;
    count.set(5);
    const pid_t child = fork();
    if (child == 0) {
      StopCount theirs;
      theirs.set(300);
      theirs.set(307);
      pause();
      _exit(0);
    }
    const bool both = eventually([&] { return count.total() == 312U; });
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return both && count.total() == 5U;  // the kernel takes back what a killed process added
  }));
}

TEST_F(SharedStopCount, IsLessWhenACommandIsNoLongerToBeStopped) {
  EXPECT_TRUE(alone([] {
    StopCount other;
    bool right = true;
    {
      StopCount count;
      count.set(25);
      right &= other.total() == 25U;
      count.set(0);
      right &= other.total() == 0U;
      count.set(25);
    }
    return right && other.total() == 0U;  // nor when its supervisor is gone
  }));
}

TEST_F(SharedStopCount, OneCommandCountsInFullForItselfAndInPartForOthers) {
  EXPECT_TRUE(alone([] {
    StopCount other;
    StopCount count;
    count.set(20'000);
    other.set(5);
    const bool right = count.total() == 20'005U && other.total() == 4'101U;
    count.set(0);
    return right && other.total() == 5U && count.total() == 5U;
  }));
}

TEST_F(SharedStopCount, GoesOnAfterItsSemaphoreWasRemoved) {
  EXPECT_TRUE(alone([] {
    StopCount count;
    count.set(25);
    for (int id = 0; id < 8; ++id) semctl(id, 0, IPC_RMID);
    const bool known = count.total() == 25U;
    count.set(26);
    return known && StopCount().total() == 26U;
  }));
}

TEST_F(SharedStopCount, IsUnknownIfAnotherUserHasMadeTheSemaphore) {
  EXPECT_TRUE(alone([] {
    constexpr uid_t other = 65534;
    StopCount().set(1);  // as root
    semid_ds about{};
    if (semctl(0, 0, IPC_STAT, &about) != 0) return false;
    const key_t key = about.sem_perm.__key;
    semctl(0, 0, IPC_RMID);
    if (!in_child([key] { return seteuid(other) == 0 && semget(key, 1, IPC_CREAT | 0666) >= 0; }))
      return false;
    StopCount count;
    count.set(5);
    return !count.total();
  }));
}

TEST_F(SharedStopCount, IsNotUsedUpByOneCommand) {
  EXPECT_TRUE(alone([] {
    StopCount many, few;
    many.set(1'000'000);
    few.set(6);
    return many.total() > 1'000'000U && few.total() > 6U && few.total() < 10'000U;
  }));
}

}  // namespace
}  // namespace holdfast::test
