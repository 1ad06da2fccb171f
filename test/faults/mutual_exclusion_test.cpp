// Processes that share one store, killed at random: what a lock is for.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <holdfast/holdfast.hpp>
#include <thread>

#include "support/calls.hpp"
#include "support/peer.hpp"
#include "support/processes.hpp"
#include "support/redis_server.hpp"
#include "support/seeded.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

constexpr int workers = 4;
constexpr auto lease = 300ms;
constexpr auto test_length = 8s;

/// What the workers tell about their holds, in memory that all of them share and no death disturbs.
struct Ledger {
  struct Hold {
    std::atomic<std::int64_t> until;  ///< boot time to which the holder can prove its lease; 0: no hold
  };
  std::atomic<std::uint64_t> highest_fence;
  std::atomic<int> grants, overlaps, falls;
  std::atomic<std::int64_t> last_grant;
  std::atomic<std::int64_t> longest_gap;
  Hold holds[workers];
};

void raise_to(std::atomic<std::int64_t>& cell, std::int64_t value) {
  for (auto seen = cell.load(); seen < value && !cell.compare_exchange_weak(seen, value);) {
  }
}

std::int64_t now_ns() {
  return BootClock::now().time_since_epoch().count();
}

/// Opening says at once what is wrong; here connections are cut all the time.
Holdfast open_patiently(const std::string& url) {
  for (int attempt = 1;; ++attempt) {
    try {
      return open(url);
    } catch (const Error& error) {
      if (!error.transient() || attempt == 20) throw;
    }
  }
}

/// Takes the lock again and again; while it can prove the lease, nobody else's proof may be running.
[[noreturn]] void work(const std::string& url, Ledger& ledger, int self, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto holdfast = open_patiently(url);
  for (;;) {
    const auto guard = holdfast.locks().lock("the-lock", {.ttl = lease, .wait = 60s});
    const auto now = now_ns();
    const auto proven = now + guard.remaining().count();
    ledger.holds[self].until = proven;
    for (int other = 0; other < workers; ++other) {
      if (other != self && ledger.holds[other].until > now) ++ledger.overlaps;
    }
    if (guard.fence().value() <= ledger.highest_fence) ++ledger.falls;
    ledger.highest_fence = guard.fence().value();
    if (const auto last = ledger.last_grant.exchange(now); last != 0)
      raise_to(ledger.longest_gap, now - last);
    ++ledger.grants;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    ledger.holds[self].until = 0;
  }
}

/// Workers on one store, killed at random; `disturb` is called each time as well.
template <class Disturb>
void kill_at_random(const std::string& url, Disturb&& disturb) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  auto* ledger = static_cast<Ledger*>(
      mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(ledger, MAP_FAILED);

  const auto start = [&](int self) {
    const auto seed = random.below(1'000'000'000);
    const pid_t pid = checked_fork();
    if (pid != 0) return pid;
    try {
      work(url, *ledger, self, seed);
    } catch (const std::exception& error) {
      std::cerr << "a worker ended: " << error.what() << std::endl;
    }
    _exit(1);
  };
  pid_t pids[workers];
  for (int i = 0; i < workers; ++i) pids[i] = start(i);

  const auto observer = open_in_another_process(url);
  int kills = 0, kills_of_holders = 0;
  for (const BootTime end = BootClock::now() + test_length; BootClock::now() < end; ++kills) {
    std::this_thread::sleep_for(milliseconds(20 + random.below(200)));
    const auto victim = static_cast<int>(random.below(workers));
    kill(pids[victim], SIGKILL);
    int status = 0;
    waitpid(pids[victim], &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "a worker ended by itself";
    // Its proof stays in the ledger: a grant before that ends would be one too early.
    if (ledger->holds[victim].until > now_ns()) ++kills_of_holders;
    // Killed between its grant and its entry: the gap begins with the grant all the same.
    if (const auto held = lookup(*observer, "the-lock");
        held && held->fence.value() > ledger->highest_fence) {
      ledger->last_grant = now_ns();
    }
    pids[victim] = start(victim);
    disturb();
  }
  for (const pid_t pid : pids) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  EXPECT_EQ(ledger->overlaps, 0);
  EXPECT_EQ(ledger->falls, 0);
  EXPECT_GT(ledger->grants, 50);
  EXPECT_GT(kills_of_holders, 0) << "the test has tested nothing";
  EXPECT_LT(std::chrono::nanoseconds(ledger->longest_gap), lease + 1s)
      << "no lock is stuck beyond its ttl + 1 s";
  std::cout << ledger->grants << " grants, " << kills << " kills, " << kills_of_holders
            << " of holders, longest gap " << ledger->longest_gap / 1'000'000 << " ms\n";
  munmap(ledger, sizeof(Ledger));
}

TEST(MutualExclusion, HoldsOnAFileWhileProcessesAreKilledAtRandom) {
  // In memory: what is tested is the lock, not how long a busy disk takes to sync.
  const TempDir dir("/dev/shm");
  kill_at_random("sqlite:" + (dir / "shared.db").string(), [] {});
}

TEST(MutualExclusion, HoldsOnRedisWhileProcessesAndConnectionsAreKilledAtRandom) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  auto raw = server.raw();
  kill_at_random(server.url(), [&] {
    raw.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    raw.command({"CLIENT", "KILL", "TYPE", "pubsub"});
    raw.command({"SCRIPT", "FLUSH"});
  });
}

}  // namespace
}  // namespace holdfast::test
