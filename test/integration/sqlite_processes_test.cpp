#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "integration/sqlite_fixture.hpp"
#include "support/calls.hpp"
#include "support/processes.hpp"

namespace holdfast::sqlite {
namespace {

using test::in_processes;
using test::Shared;

class SqliteProcesses : public SqliteTest {};

TEST_F(SqliteProcesses, MayCreateTheFileAtTheSameMoment) {
  // Without a disk to wait for they come closest together.
  const bool in_memory = std::filesystem::is_directory("/dev/shm");
  const test::TempDir fast(in_memory ? "/dev/shm" : std::filesystem::temp_directory_path());
  for (int round = 0; round < 40; ++round) {
    file = fast.path() / ("new" + std::to_string(round) + ".db");
    in_processes(4, [&](int i) { return granted(open().acquire(LockId::generate(), std::to_string(i))); });
    auto client = open();
    EXPECT_EQ(client.list()->locks.size(), 4U) << "all in one file";
    EXPECT_EQ(sql(file, "SELECT count(*), max(fence_last) FROM meta"), "1|4");
  }
}

TEST_F(SqliteProcesses, MayAdoptANewClockAtTheSameMoment) {
  FakeClock time;
  open(time).grant(LockId::generate(), "k", 60s, Durability::machine);
  time.reboot_after(1s);
  in_processes(4, [&](int i) {
    auto client = open(time);
    client.grant(LockId::generate(), std::to_string(i));
    return client.is_locked("k").value_or_throw();
  });
  EXPECT_EQ(sql(file, "SELECT count(*) FROM clocks"), "2");
}

TEST_F(SqliteProcesses, NeverHoldOneLockTogetherAndSeeFencesRise) {
  struct State {
    std::atomic<int> holders = 0;
    std::atomic<std::uint64_t> highest = 0;
    std::atomic<int> grants = 0;
  };
  const Shared<State> state;
  in_processes(4, [&](int) {
    auto client = open();
    for (int done = 0; done < 200;) {
      const auto id = LockId::generate();
      const auto outcome = client.acquire(id, "k");
      if (!outcome.ok()) throw outcome.error();
      if (!granted(outcome)) {
        std::this_thread::yield();
        continue;
      }
      if (++state->holders != 1) return false;
      const auto fence = std::get<Granted>(*outcome).fence.value();
      if (state->highest.exchange(fence) >= fence) return false;
      ++state->grants;
      --state->holders;
      if (!released(client.release(id, "k"))) return false;
      ++done;
    }
    return true;
  });
  EXPECT_EQ(state->grants, 800);
  EXPECT_EQ(state->highest, 800U) << "no fence was lost or given twice";
}

TEST_F(SqliteProcesses, WakeAWaiterElsewhereWhenTheyRelease) {
  struct State {
    std::atomic<bool> held = false, watching = false;
  };
  const Shared<State> state;
  in_processes(2, [&](int i) {
    auto client = open();
    const auto id = LockId::generate();
    const auto key = *LockKey::parse("k");
    if (i == 0) {
      client.grant(id, "k");
      state->held = true;
      while (!state->watching) std::this_thread::yield();
      std::this_thread::sleep_for(20ms);
      return released(client.release(id, "k"));
    }
    while (!state->held) std::this_thread::yield();
    const auto watch = test::watch_of(client.backend(), key);
    if (!watch || !refused(client.acquire(id, "k"))) return false;
    state->watching = true;
    while (test::wait_until(*watch, BootClock::now() + 20s, {})) {
      if (granted(client.acquire(id, "k"))) return true;
    }
    return false;
  });
}

TEST_F(SqliteProcesses, AForkedChildCannotUseItsParentsBackend) {
  auto client = std::make_optional(open());
  const auto id = LockId::generate();
  client->grant(id, "k");
  in_processes(1, [&](int) {
    const auto fails = [](const auto& outcome) {
      return !outcome.ok() && outcome.error().code() == ErrorCode::ServiceUnavailable &&
             outcome.error().message().find("fork") != std::string::npos;
    };
    const bool all_fail = fails(client->acquire(LockId::generate(), "x")) &&
                          fails(client->release(id, "k")) && fails(client->extend(id, "k", 1s)) &&
                          fails(client->is_locked("k")) && fails(client->lookup("k")) &&
                          fails(client->lookup(id)) && fails(client->list()) &&
                          test::watch_of(client->backend(), *LockKey::parse("k")) == nullptr;
    client.reset();  // must not close the parent's files
    return all_fail;
  });
  EXPECT_TRUE(*client->is_locked("k"));
  EXPECT_TRUE(granted(client->acquire(LockId::generate(), "another")));
  EXPECT_TRUE(released(client->release(id, "k")));
}

TEST_F(SqliteProcesses, AForkedChildMayNotOpenTheFileItsParentHasOpen) {
  auto client = open();
  in_processes(1, [&](int) {
    const auto error = refusal();
    return error && error->code() == ErrorCode::ServiceUnavailable &&
           error->message().find("forked") != std::string::npos && !refusal(directory.path() / "another.db");
  });
  EXPECT_TRUE(granted(client.acquire(LockId::generate(), "k")));
}

TEST_F(SqliteProcesses, AForkedChildMayOpenAFileItsParentHasClosed) {
  open().grant(LockId::generate(), "k");
  in_processes(1, [&](int) { return *open().is_locked("k"); });
}

TEST_F(SqliteProcesses, AKilledWriterLeavesTheFileUsable) {
  for (int round = 0; round < 10; ++round) {
    const pid_t child = test::checked_fork();
    if (child == 0) {
      auto client = open();
      while (true) {
        const auto id = LockId::generate();
        client.grant(id, "k", 1ms);
        static_cast<void>(client.release(id, "k"));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 3 * round));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    auto client = open();
    std::this_thread::sleep_for(2ms);  // past the dead one's lease
    const auto id = LockId::generate();
    EXPECT_TRUE(granted(client.acquire(id, "k")));
    EXPECT_TRUE(released(client.release(id)));
  }
}

TEST_F(SqliteProcesses, KeepTheLogShortHoweverBusyTheyAre) {
  const Shared<std::atomic<std::uintmax_t>> longest;
  in_processes(4, [&](int i) {
    auto client = open();
    const auto key = std::to_string(i);
    for (int pair = 0; pair < 3000; ++pair) {
      const auto id = LockId::generate();
      client.grant(id, key);
      if (!released(client.release(id, key))) return false;
    }
    const auto size = std::filesystem::file_size(file.string() + "-wal");
    for (auto seen = longest->load(); seen < size && !longest->compare_exchange_weak(seen, size);) {
    }
    return true;
  });
  // About 60 MiB went through it; it starts again every 8 MiB, with room for a missed attempt.
  EXPECT_GT(longest->load(), 1U << 20);
  EXPECT_LT(longest->load(), 24U << 20);
}

TEST_F(SqliteProcesses, ThreadsShareOneBackend) {
  auto client = open();
  std::atomic<int> holders = 0, mistakes = 0, grants = 0;
  std::atomic<std::uint64_t> highest = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int done = 0; done < 100;) {
          const auto id = LockId::generate();
          const auto outcome = client.acquire(id, "k");
          if (!granted(outcome)) continue;
          if (++holders != 1) ++mistakes;
          const auto fence = std::get<Granted>(*outcome).fence.value();
          if (highest.exchange(fence) >= fence) ++mistakes;
          --holders;
          if (!released(client.release(id, "k"))) ++mistakes;
          ++grants;
          ++done;
        }
      });
    }
  }
  EXPECT_EQ(mistakes, 0);
  EXPECT_EQ(grants, 400);
}

}  // namespace
}  // namespace holdfast::sqlite
