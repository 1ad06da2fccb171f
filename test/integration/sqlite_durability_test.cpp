#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

#include "engine/sqlite/backends.hpp"
#include "engine/sqlite/fences.hpp"
#include "integration/sqlite_fixture.hpp"
#include "support/queue_calls.hpp"
#include "support/storage_calls.hpp"

namespace {
std::atomic<int> syncs = 0;

/// While it lives, files as they were when they were last synced: all that a power cut is sure to leave. For
/// one thread.
class OnDisk {
 public:
  OnDisk() { current = this; }
  ~OnDisk() { current = nullptr; }
  OnDisk(const OnDisk&) = delete;
  OnDisk& operator=(const OnDisk&) = delete;

  /// Reads through the descriptor that is synced: closing another one would drop SQLite's locks.
  static void note_sync(int fd) {
    struct stat status{};
    if (current == nullptr || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
    std::array<char, 4096> name{};
    const auto link = "/proc/self/fd/" + std::to_string(fd);
    const auto length = readlink(link.c_str(), name.data(), name.size());
    if (length <= 0) return;
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    if (pread(fd, bytes.data(), bytes.size(), 0) != status.st_size) return;
    current->files_.insert_or_assign(std::string(name.data(), static_cast<std::size_t>(length)), bytes);
  }

  /// One that was never synced is left empty.
  void write(const std::string& file, const std::string& copy) {
    std::ofstream(copy, std::ios::binary) << files_[file];
  }

 private:
  inline static OnDisk* current = nullptr;
  std::map<std::string, std::string> files_;
};
}  // namespace

// Stands in for the C library's, for SQLite too: the experiment that shows which commits wait for the disk.
extern "C" int fdatasync(int fd) {
  ++syncs;
  OnDisk::note_sync(fd);
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}
extern "C" int fsync(int fd) {
  ++syncs;
  OnDisk::note_sync(fd);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace holdfast::sqlite {
namespace {

template <class F>
int syncs_of(F operation) {
  const int before = syncs;
  operation();
  return syncs - before;
}

class SqliteDurability : public SqliteTest {
 protected:
  static void run(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

  /// Copies the file and its log as they are, in another process: opening and closing them in this one would
  /// drop SQLite's locks.
  [[nodiscard]] std::filesystem::path saved() const {
    auto saved = scratch.path() / "saved";
    run("cp " + file.string() + " " + saved.string() + " && cp " + file.string() + "-wal " + saved.string() +
        "-wal");
    return saved;
  }

  /// Shows `examine` the file as a power cut may have left it that lost the log behind that many bytes.
  template <class F>
  void after_losing_the_log_behind(std::uintmax_t bytes, const std::filesystem::path& saved,
                                   F examine) const {
    const auto copy = scratch.path() / "copy.db";
    std::filesystem::copy_file(saved, copy);
    std::filesystem::copy_file(saved.string() + "-wal", copy.string() + "-wal");
    std::filesystem::resize_file(copy.string() + "-wal", bytes);
    FakeClock rebooted = time;
    rebooted.reboot_after(1s);
    examine(copy, rebooted);
    for (const char* suffix : {"", "-wal", "-shm", "-wake"}) std::filesystem::remove(copy.string() + suffix);
  }

  FakeClock time;
  test::TempDir scratch;
  static constexpr std::uintmax_t header_bytes = 32, frame_bytes = 24 + 1024;
};

TEST_F(SqliteDurability, ANewFileHasRoomForItsFirstLocksBeforeTheyAreGranted) {
  // On a full disk the log can be copied only into pages that the file has already.
  auto client = open(time);
  client.grant(LockId::generate(), "a", 30s, Durability::process);
  const auto bytes = std::filesystem::file_size(file);
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "PRAGMA wal_checkpoint(RESTART)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_EQ(std::filesystem::file_size(file), bytes);
}

TEST_F(SqliteDurability, OnlyDurableChangesAndTheFirstOneWaitForTheDisk) {
  open(time);
  auto client = open(time);
  std::vector<LockId> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(LockId::generate());
  const auto key = [](int i) { return "k" + std::to_string(i); };

  EXPECT_GE(syncs_of([&] { client.grant(ids[0], key(0), 30s, Durability::process); }), 1) << "the first";
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(syncs_of([&] { client.grant(ids[1], key(1), 30s, Durability::process); }), 0);
    EXPECT_EQ(
        syncs_of([&] { EXPECT_TRUE(extended(client.extend(ids[1], key(1), 30s, Durability::process))); }), 0);
    EXPECT_EQ(syncs_of([&] { EXPECT_TRUE(released(client.release(ids[1], key(1), Durability::process))); }),
              0);
    EXPECT_EQ(syncs_of([&] { client.grant(ids[2], key(2), 30s, Durability::machine); }), 1);
    EXPECT_EQ(syncs_of([&] { client.grant(ids[2], key(2), 30s, Durability::machine); }), 1) << "again";
    EXPECT_EQ(
        syncs_of([&] { EXPECT_TRUE(extended(client.extend(ids[2], key(2), 30s, Durability::machine))); }), 1);
    EXPECT_EQ(syncs_of([&] { EXPECT_TRUE(released(client.release(ids[2], key(2), Durability::machine))); }),
              1);
  }
}

TEST_F(SqliteDurability, TheFirstChangeOfEveryConnectionWaitsForTheDisk) {
  auto first = open(time);
  first.grant(LockId::generate(), "a");
  auto second = open(time);
  EXPECT_EQ(syncs_of([&] { EXPECT_TRUE(refused(second.acquire(LockId::generate(), "a"))); }), 0);
  EXPECT_GE(syncs_of([&] { second.grant(LockId::generate(), "b"); }), 1) << "a refusal synced nothing";
  EXPECT_EQ(syncs_of([&] { second.grant(LockId::generate(), "c"); }), 0);
}

TEST_F(SqliteDurability, AFenceThatNeedsANewBlockWaitsForTheDisk) {
  open(time).grant(LockId::generate(), "a");
  const auto reserved = std::stoull(sql(file, "SELECT fence_reserved FROM meta"));
  sql(file, "UPDATE meta SET fence_last = fence_reserved - " + std::to_string(fence_block / 2 + 2));
  auto client = open(time);
  client.grant(LockId::generate(), "b");
  EXPECT_EQ(syncs_of([&] { client.grant(LockId::generate(), "c"); }), 0);
  EXPECT_GE(syncs_of([&] { client.grant(LockId::generate(), "d"); }), 3) << "the log twice and the file";
  EXPECT_EQ(syncs_of([&] { client.grant(LockId::generate(), "e"); }), 0);
  const auto now = std::stoull(sql(file, "SELECT fence_reserved FROM meta"));
  EXPECT_GE(now, reserved + fence_block / 2);
  EXPECT_EQ(std::stoull(sql(file, "SELECT fence_in_file FROM closing")), now);
}

TEST_F(SqliteDurability, AHolderAloneWaitsForTheDiskFiveTimesFromOpeningToClosing) {
  // As often as before the file said whether it was closed cleanly: the head of the log and the first change,
  // then, to close, the log and the file.
  open(time).grant(LockId::generate(), "warm-up");
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(syncs_of([&] {
                auto client = open(time);
                const auto id = LockId::generate();
                client.grant(id, "k");
                EXPECT_TRUE(released(client.release(id, "k")));
              }),
              5);
    EXPECT_EQ(syncs_of([&] { EXPECT_FALSE(*open(time).is_locked("k")); }), 0) << "reading";
  }
}

TEST_F(SqliteDurability, TheFirstDurableLockOfANewFileIsOnDiskWithTheTablesItIsIn) {
  OnDisk disk;
  auto client = open(time);
  const auto id = LockId::generate();
  const auto before = client.grant(id, "k", 1h, Durability::machine);
  const auto copy = scratch.path() / "copy.db";
  for (const char* suffix : {"", "-wal"}) disk.write(file.string() + suffix, copy.string() + suffix);
  std::filesystem::permissions(copy, std::filesystem::status(file).permissions());
  std::filesystem::permissions(copy.string() + "-wal", std::filesystem::status(file).permissions());
  FakeClock rebooted = time;
  rebooted.reboot_after(1s);
  Client after(open_lock_backend(copy, {}, {}, rebooted.clock()).value_or_throw());
  const auto record = *after.lookup("k");
  ASSERT_TRUE(record && record->id == id);
  const auto next = after.grant(LockId::generate(), "new");
  EXPECT_EQ(next.authority, before.authority);
  EXPECT_GT(next.fence, before.fence);
}

/// What had been promised when the power was cut, and how much of the log was certainly on disk.
struct Moment {
  std::uintmax_t log_bytes = 0;
  std::uintmax_t durable_bytes = 0;
  Fence highest;
  std::map<std::string, LockId> durable_locks;
};

TEST_F(SqliteDurability, NoLostTailOfTheLogTakesBackAFenceOrADurableLock) {
  const std::filesystem::path log = file.string() + "-wal";
  open(time).grant(LockId::generate(), "warm-up");
  sql(file, "UPDATE meta SET fence_last = fence_reserved - 7; DELETE FROM locks");

  std::vector<Moment> moments;
  auto client = open(time);
  {
    Moment now;
    std::map<std::string, LockId> held;
    const auto step = [&](auto operation) {
      const bool synced = syncs_of(operation) > 0;
      now.log_bytes = std::filesystem::file_size(log);
      if (synced) now.durable_bytes = now.log_bytes;
      moments.push_back(now);
    };
    const auto acquire = [&](const std::string& key, Durability durability) {
      step([&] {
        const auto id = LockId::generate();
        now.highest = std::max(now.highest, client.grant(id, key, 1h, durability).fence);
        held.insert_or_assign(key, id);
        if (durability == Durability::machine) now.durable_locks.insert_or_assign(key, id);
      });
    };
    const auto release = [&](const std::string& key, Durability durability) {
      step([&] {
        EXPECT_TRUE(released(client.release(held.at(key), key, durability)));
        now.durable_locks.erase(key);
      });
    };
    for (int round = 0; round < 4; ++round) {
      const auto n = std::to_string(round);
      acquire("guarded" + n, Durability::process);
      acquire("detached" + n, Durability::machine);
      acquire("brief" + n, Durability::process);
      release("brief" + n, Durability::process);
      acquire("detached-later" + n, Durability::process);
      step([&] {
        const auto id = held.at("detached-later" + n);
        EXPECT_TRUE(extended(client.extend(id, {}, 1h, Durability::machine)));
        now.durable_locks.insert_or_assign("detached-later" + n, id);
      });
      acquire("guarded-too" + n, Durability::process);
      if (round > 0) release("detached" + std::to_string(round - 1), Durability::machine);
    }
  }
  const auto copies = saved();
  int cuts = 0;
  for (const auto& moment : moments) {
    for (auto cut = moment.durable_bytes; cut <= moment.log_bytes; cut += frame_bytes / 2) {
      ++cuts;
      after_losing_the_log_behind(cut, copies, [&](const std::filesystem::path& copy, FakeClock& rebooted) {
        Client after(open_lock_backend(copy, {}, {}, rebooted.clock()).value_or_throw());
        for (const auto& [key, id] : moment.durable_locks) {
          const auto record = *after.lookup(key);
          ASSERT_TRUE(record && record->id == id) << key << " cut at " << cut;
        }
        const auto left = after.list({}, 1000);
        for (const auto& lock : left->locks) {
          EXPECT_FALSE(lock.key.str().starts_with("guarded")) << lock.key.str() << " cut at " << cut;
        }
        ASSERT_GT(after.grant(LockId::generate(), "new").fence, moment.highest) << "cut at " << cut;
      });
    }
  }
  EXPECT_EQ((moments.back().log_bytes - header_bytes) % frame_bytes, 0U)
      << "frames are not as this test assumes";
  EXPECT_GT(cuts, 60);
}

class SqliteRecordDurability : public SqliteDurability {
 protected:
  std::shared_ptr<StorageBackend> records(const std::filesystem::path& path, FakeClock& fake) {
    return open_storage_backend(path, {}, {}, fake.clock()).value_or_throw();
  }
  std::shared_ptr<StorageBackend> records() { return records(file, time); }
};

TEST_F(SqliteRecordDurability, EveryChangeWaitsForTheDiskAndARefusedOneDoesNot) {
  records();
  const auto store = records();
  const auto key = test::record_key("owner:task");
  test::create(*store, "owner:warm-up");
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(syncs_of([&] { test::create(*store, "owner:task"); }), 1);
    EXPECT_EQ(syncs_of([&] { test::put(*store, "owner:task"); }), 1);
    EXPECT_EQ(syncs_of([&] { test::outcome(*store, BindRecord{.key = key, .fence = test::token(2)}); }), 1);
    EXPECT_EQ(syncs_of([&] {
                EXPECT_NE(test::refused_with(
                              ErrorCode::StaleFence,
                              test::outcome(*store, BindRecord{.key = key, .fence = test::token(1)})),
                          nullptr);
                EXPECT_TRUE(test::get(*store, "owner:task"));
              }),
              0);
    EXPECT_EQ(syncs_of([&] { test::outcome(*store, RebindRecord{.key = key}); }), 1);
    EXPECT_EQ(syncs_of([&] { EXPECT_TRUE(test::remove(*store, "owner:task")); }), 1);
    EXPECT_EQ(syncs_of([&] { EXPECT_FALSE(test::remove(*store, "owner:task")); }), 0);
  }
}

TEST_F(SqliteRecordDurability, CreatesAndOutcomesOfQueuesWaitForTheDiskAndClaimsDoNot) {
  const auto store = records();
  test::enqueue(*store, "q:warm-up", {.priority = -1});
  for (int round = 0; round < 3; ++round) {
    std::optional<ClaimedRecord> claimed;
    EXPECT_EQ(syncs_of([&] { test::enqueue(*store, "q:task"); }), 1);
    EXPECT_EQ(syncs_of([&] { claimed = test::claim_one(*store); }), 0);
    EXPECT_EQ(syncs_of([&] { EXPECT_TRUE(test::renew(*store, *claimed).is_held); }), 0);
    EXPECT_EQ(syncs_of([&] { test::retry(*store, *claimed); }), 1);
    EXPECT_EQ(syncs_of([&] { claimed = test::claim_one(*store); }), 0);
    EXPECT_EQ(syncs_of([&] { test::finish(*store, *claimed); }), 1);
    EXPECT_EQ(syncs_of([&] { test::finish(*store, *claimed); }), 0) << "refused";
    EXPECT_EQ(syncs_of([&] { test::pause(*store); }), 1);
    EXPECT_EQ(syncs_of([&] { test::pause(*store); }), 0) << "nothing changed";
    EXPECT_EQ(syncs_of([&] { test::count_queue(*store); }), 0);
    EXPECT_EQ(syncs_of([&] { test::pause(*store, false); }), 1);
    test::remove(*store, "q:task");
  }
}

TEST_F(SqliteRecordDurability, TheFirstAnswerOfAConnectionIsOnDiskEvenIfItOnlySaysWhatIsThere) {
  // What is there may come from the log of a process that was killed after it wrote and before it synced.
  // Whoever asked it to create the record asks again, and takes this answer for its own.
  test::create(*records(), "owner:task");
  const auto store = records();
  EXPECT_GE(
      syncs_of([&] {
        EXPECT_TRUE(std::holds_alternative<AlreadyThere>(test::outcome(
            *store, CreateRecord{.key = test::record_key("owner:task"), .data = test::record_data("{}")})));
      }),
      1);
  EXPECT_EQ(syncs_of([&] { EXPECT_FALSE(test::remove(*store, "owner:other")); }), 0) << "once is enough";
}

TEST_F(SqliteRecordDurability, NoLostTailOfTheLogTakesBackAnAnsweredChange) {
  /// What had been answered, and how much of the log was certainly on disk then.
  struct After {
    std::uintmax_t durable_bytes = 0;
    std::map<std::string, StoredRecord> records;
  };
  std::vector<After> history;
  static_cast<void>(open(time));  // the log of its creation is gone with it: the next one grows from nothing
  auto client = open(time);
  const auto store = records();
  std::uintmax_t durable_bytes = 0;
  const auto step = [&](auto change) {
    if (syncs_of(change) > 0) durable_bytes = std::filesystem::file_size(file.string() + "-wal");
    After now{.durable_bytes = durable_bytes, .records = {}};
    for (const auto& listed : test::outcome(*store, ListRecords{.prefix = "owner:"}).records) {
      now.records.emplace(listed.key.task(), listed.record);
    }
    history.push_back(std::move(now));
  };
  for (int round = 0; round < 5; ++round) {
    const auto key = "owner:task" + std::to_string(round);
    client.grant(LockId::generate(), "unsynced" + std::to_string(round));
    step([&] { test::create(*store, key, test::record_text({.note = std::string(3000, 'a')})); });
    step([&] { test::put(*store, key, test::record_text({.note = "later"})); });
    step([&] { test::outcome(*store, BindRecord{.key = test::record_key(key), .fence = test::token(7)}); });
    client.grant(LockId::generate(), "unsynced-too" + std::to_string(round));
    if (round % 2 == 1) step([&] { EXPECT_TRUE(test::remove(*store, key)); });
  }
  client.grant(LockId::generate(), "unsynced-at-last");
  const auto copies = saved();
  for (const auto& after : history) {
    // Half a transaction behind it must not count.
    for (const auto more : {std::uintmax_t{0}, frame_bytes / 2, frame_bytes}) {
      after_losing_the_log_behind(
          after.durable_bytes + more, copies, [&](const std::filesystem::path& copy, FakeClock& rebooted) {
            const auto left = test::outcome(*records(copy, rebooted), ListRecords{.prefix = "owner:"});
            ASSERT_EQ(left.records.size(), after.records.size()) << "cut at " << after.durable_bytes + more;
            for (const auto& [listed, record, created_at] : left.records) {
              const auto& before = after.records.at(std::string(listed.task()));
              EXPECT_EQ(record.data, before.data);
              EXPECT_EQ(record.version, before.version);
              EXPECT_EQ(record.incarnation, before.incarnation);
              EXPECT_EQ(record.bound_to, before.bound_to);
            }
          });
    }
  }
}

TEST_F(SqliteDurability, AboveTheLastFenceNothingIsHeld) {
  open(time);
  sql(file, "UPDATE meta SET fence_last = 899999999999999, fence_reserved = 899999999999999");
  auto client = open(time);
  EXPECT_EQ(client.grant(LockId::generate(), "k").fence.value(), Fence::max_issued);
  const auto id = LockId::generate();
  const auto error = client.acquire(id, "another").error();
  EXPECT_EQ(error.code(), ErrorCode::Internal);
  EXPECT_NE(error.message().find(file.string()), std::string::npos) << error.message();
  EXPECT_FALSE(*client.is_locked("another"));
  EXPECT_EQ(absence(client.release(id)), Absence::not_found);
  EXPECT_TRUE(*client.is_locked("k")) << "what is held stays held";
}

TEST_F(SqliteDurability, NearTheEndOfTheFencesEachGrantWarnsWithoutNamingTheKey) {
  open(time);
  sql(file, "UPDATE meta SET fence_last = 89999999999999, fence_reserved = 89999999999999");
  auto log = std::make_shared<Log>();
  std::vector<std::pair<LogLevel, std::string>> lines;
  log->set_sink([&](LogLevel level, std::string_view message) { lines.emplace_back(level, message); });
  auto client = open(time, log);
  EXPECT_EQ(client.grant(LockId::generate(), "secret-key").fence.value(), Fence::warn_above);
  log->flush();
  EXPECT_TRUE(lines.empty());
  client.grant(LockId::generate(), "secret-key-2");
  log->flush();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].first, LogLevel::warning);
  EXPECT_NE(lines[0].second.find(key_hash("secret-key-2")), std::string::npos) << lines[0].second;
  EXPECT_EQ(lines[0].second.find("secret-key"), std::string::npos) << lines[0].second;
}

}  // namespace
}  // namespace holdfast::sqlite
