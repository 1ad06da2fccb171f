#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "engine/sqlite/fences.hpp"
#include "integration/sqlite_fixture.hpp"
#include "support/processes.hpp"
#include "support/seeded.hpp"

namespace holdfast::sqlite {
namespace {

class SqliteClosing : public SqliteTest {
 protected:
  /// Runs the body, which gets a file that it has open, in a process that is killed before it closes the
  /// file.
  void killed_after(const std::function<void(Client&)>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto client = open();
      body(client);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  void remove_log() const {
    for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
  }
  /// Of a key that was never granted before.
  static std::uint64_t grant(Client& client) {
    const auto id = LockId::generate();
    return client.grant(id, std::string(id.str())).fence.value();
  }
  std::uint64_t grant() {
    auto client = open();
    return grant(client);
  }
  [[nodiscard]] std::string state() const { return sql(file, "SELECT state FROM closing"); }
};

TEST_F(SqliteClosing, CleanlyTheFencesGoOnWithoutAGap) {
  for (std::uint64_t fence = 1; fence <= 5; ++fence) {
    EXPECT_EQ(grant(), fence);
    EXPECT_EQ(state(), closed_cleanly);
    EXPECT_FALSE(*open().is_locked("another")) << "reading does not end that";
    EXPECT_EQ(state(), closed_cleanly);
  }
}

TEST_F(SqliteClosing, KilledWithItsLogTheFencesGoOnWithoutAGap) {
  killed_after([](Client& client) { grant(client); });
  killed_after([](Client& client) {
    for (int i = 2; i <= 20; ++i) grant(client);
  });
  EXPECT_EQ(open().list()->locks.size(), 20U);
  EXPECT_EQ(grant(), 21U);
}

TEST_F(SqliteClosing, KilledAndItsLogRemovedNoFenceIsRepeated) {
  const test::Shared<std::uint64_t> granted;
  grant();
  killed_after([&](Client& client) {
    for (int i = 0; i < 20; ++i) *granted = grant(client);
  });
  EXPECT_EQ(*granted, 21U);
  remove_log();
  const auto authority = open().backend().authority();
  EXPECT_EQ(open().list()->locks.size(), 1U) << "what was in the log is lost, and reading mends nothing";
  const auto next = grant();
  EXPECT_GT(next, *granted);
  EXPECT_EQ(open().backend().authority(), authority);
  EXPECT_EQ(grant(), next + 1) << "once is enough";
}

TEST_F(SqliteClosing, KilledInTheMiddleOfAClosingTheNextUsersFencesAreNotRepeatedWithoutTheirLog) {
  killed_after([&](Client& client) {
    grant(client);
    // So far a last user gets: the log is copied, and not yet deleted.
    sql(file, "UPDATE closing SET state = 'closed cleanly'; PRAGMA wal_checkpoint");
  });
  const test::Shared<std::uint64_t> granted;
  killed_after([&](Client& client) {
    for (int i = 0; i < 20; ++i) *granted = grant(client);
  });
  EXPECT_EQ(*granted, 21U);
  remove_log();
  EXPECT_GT(grant(), *granted);
}

TEST_F(SqliteClosing, IsCleanOnlyWhenTheLastUserCloses) {
  struct State {
    std::atomic<int> open = 0;
    std::atomic<bool> closed = false;
  };
  const test::Shared<State> seen;
  test::in_processes(2, [&](int i) {
    {
      auto client = open();
      client.grant(LockId::generate(), std::to_string(i));
      for (++seen->open; seen->open < 2;) std::this_thread::yield();
      if (i == 0) {
        while (!seen->closed) std::this_thread::yield();
        return state() == open_or_killed;
      }
    }
    seen->closed = true;
    return true;
  });
  EXPECT_EQ(state(), closed_cleanly);
}

TEST_F(SqliteClosing, ANewFileWithoutItsLogGoesOnFromItsReserve) {
  const test::Shared<std::array<char, 37>> authority;
  killed_after([&](Client& client) {
    grant(client);
    std::ranges::copy(client.backend().authority(), authority->begin());
  });
  remove_log();
  EXPECT_GT(grant(), 100'000U);
  EXPECT_EQ(open().backend().authority(), authority->data()) << "its tables are in the file itself";
}

TEST_F(SqliteClosing, WithoutTheLogNoFenceOfANewBlockIsRepeatedEither) {
  grant();
  sql(file, "UPDATE meta SET fence_last = fence_reserved - 10");
  const test::Shared<std::uint64_t> granted;
  killed_after([&](Client& client) {
    for (int i = 0; i < 30; ++i) *granted = grant(client);
  });
  EXPECT_GT(*granted, fence_block);
  remove_log();
  EXPECT_GT(grant(), *granted);
}

TEST_F(SqliteClosing, WhileTheLogCannotBeCopiedOnlyWhatTheFileReservesIsGranted) {
  grant();
  sql(file, "UPDATE meta SET fence_last = fence_reserved - 3");
  auto client = open({.busy_timeout = 50ms});
  client.grant(LockId::generate(), "a");  // reserves more, and copies the log
  sql(file, "UPDATE meta SET fence_last = (SELECT fence_in_file FROM closing) - 2");
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT * FROM meta", nullptr, nullptr, nullptr), SQLITE_OK);
  client.grant(LockId::generate(), "b");
  const auto last = client.grant(LockId::generate(), "c").fence.value();
  EXPECT_EQ(std::to_string(last), sql(file, "SELECT fence_in_file FROM closing"));
  const auto error = client.acquire(LockId::generate(), "d").error();
  EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable);
  EXPECT_NE(error.message().find("process that holds a transaction open"), std::string::npos)
      << error.message();
  EXPECT_FALSE(*client.is_locked("d"));
  sqlite3_close(reader);
  EXPECT_EQ(client.grant(LockId::generate(), "d").fence.value(), last + 1);
}

TEST_F(SqliteClosing, AFileOfVersion2GoesOnAndIsProtectedFromThen) {
  grant();
  sql(file,
      "DROP TRIGGER output_record_removed; DROP TABLE output_chunks; DROP TABLE output_runs; "
      "DROP TRIGGER queued_record_removed; DROP TABLE queued; DROP TABLE queues; "
      "DROP TABLE closing; ALTER TABLE clocks DROP COLUMN is_kernels; ALTER TABLE locks DROP COLUMN holder; "
      "PRAGMA user_version=2");
  const test::Shared<std::uint64_t> granted;
  killed_after([&](Client& client) { *granted = grant(client); });
  EXPECT_EQ(*granted, 2U);
  remove_log();
  EXPECT_GT(grant(), *granted);
}

/// Users that come and go in every way, and an operator who removes the log whenever nobody runs.
TEST_F(SqliteClosing, InWhateverWayFencesRise) {
  test::Seeded random;
  const test::Shared<std::uint64_t> highest;
  const auto grant_some = [&](Client& client) {
    for (auto left = random.below(4); left > 0; --left) {
      const auto fence = grant(client);
      *highest = fence > *highest ? fence : UINT64_MAX;
    }
  };
  grant();
  const auto authority = open().backend().authority();
  for (int round = 0; round < 60; ++round) {
    switch (random.below(7)) {
      case 0: {
        auto client = open();
        grant_some(client);
        break;
      }
      case 1:
        killed_after(grant_some);
        break;
      case 2:
        static_cast<void>(open().list());
        break;
      case 3:
        killed_after([](Client& client) { static_cast<void>(client.list()); });
        break;
      case 4:
        killed_after([&](Client& client) {
          grant_some(client);
          {
            auto another = open();
            grant_some(another);
          }
          grant_some(client);
        });
        break;
      case 5:
        sql(file,
            random.below(2) == 0 ? "PRAGMA wal_checkpoint(PASSIVE)" : "PRAGMA wal_checkpoint(TRUNCATE)");
        break;
      default:
        remove_log();
    }
    ASSERT_NE(*highest, UINT64_MAX) << "round " << round << ", " << random.seed();
  }
  EXPECT_EQ(open().backend().authority(), authority) << random.seed();
}

}  // namespace
}  // namespace holdfast::sqlite
