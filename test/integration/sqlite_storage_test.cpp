#include <atomic>
#include <fstream>
#include <thread>

#include "engine/sqlite/backends.hpp"
#include "engine/sqlite/migrations.hpp"
#include "engine/sqlite/storage_table.hpp"
#include "integration/sqlite_fixture.hpp"
#include "support/calls.hpp"
#include "support/processes.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::sqlite {
namespace {

using test::outcome;
using test::record_data;
using test::record_key;
using test::record_text;

class SqliteStorage : public SqliteTest {
 protected:
  std::shared_ptr<StorageBackend> records() { return make_sqlite_storage_backend(file).value_or_throw(); }
  std::shared_ptr<StorageBackend> records(FakeClock& fake) {
    return open_storage_backend(file, {}, {}, fake.clock()).value_or_throw();
  }
  static Result<CreateOutcome> try_create(StorageBackend& store, const std::string& key,
                                          std::optional<std::size_t> quota = {}, std::string text = "{}") {
    return test::call(
        store, CreateRecord{.key = record_key(key), .data = record_data(std::move(text)), .quota = quota});
  }
  std::size_t rows() const { return std::stoul(sql(file, "SELECT count(*) FROM records")); }

  /// What the version before had.
  void make_it_version_1() const {
    sql(file,
        "DROP TABLE output_chunks; DROP TABLE output_runs; "
        "DROP TABLE records; DROP TABLE owners; DROP TABLE closing; DROP TABLE queued; DROP TABLE queues; "
        "ALTER TABLE clocks DROP COLUMN is_kernels; ALTER TABLE locks DROP COLUMN holder; "
        "PRAGMA user_version=1");
  }

  FakeClock time;
};

TEST_F(SqliteStorage, AFileOfVersion1KeepsItsLocksAndGetsRecords) {
  const auto mine = LockId::generate(), guards = LockId::generate();
  Fence fence;
  {
    auto client = open();
    fence = client.grant(mine, "durable", 1h, Durability::machine).fence;
    client.grant(guards, "guarded", 1h, Durability::process);
  }
  make_it_version_1();
  const auto fresh = directory.path() / "fresh.db";
  {
    std::ofstream(fresh).flush();
    Connection connection(fresh);
    migrate(connection, migrations().first(1));
  }
  const std::string schema =
      "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)";
  ASSERT_EQ(sql(file, schema), sql(fresh, schema)) << "as a program of version 1 made it";

  const auto store = records();
  test::create(*store, "owner:task");
  EXPECT_TRUE(test::get(*store, "owner:task"));
  EXPECT_EQ(sql(file, "PRAGMA user_version"), "5");
  auto client = open();
  EXPECT_EQ((*client.lookup("durable"))->id, mine);
  EXPECT_EQ((*client.lookup("guarded"))->id, guards);
  EXPECT_EQ((*client.lookup("durable"))->fence, fence);
  EXPECT_EQ(client.grant(LockId::generate(), "next").fence.value(), fence.value() + 2) << "one sequence";
}

TEST_F(SqliteStorage, WhoHasAFileOfVersion1OpenGoesOnAfterItWasTakenForward) {
  const auto id = LockId::generate();
  open().grant(id, "k", 1h, Durability::machine);
  make_it_version_1();
  Connection connection(file);
  const Statement find(
      connection,
      "SELECT meta.clock, key, id, fence, deadline_ms, ttl_ms, acquired_at_ms, expires_at_ms, durable "
      "FROM meta LEFT JOIN locks ON id = ?1");
  const auto found = [&] {
    auto row = find.run(id.str());
    return row.next() && !row.is_null(1);
  };
  EXPECT_TRUE(found());
  test::create(*records(), "owner:task");
  EXPECT_TRUE(found());
  connection.execute("DELETE FROM locks WHERE key = CAST('k' AS BLOB)");
  EXPECT_FALSE(*open().is_locked("k"));
}

TEST_F(SqliteStorage, AProgramOfVersion3ThatHasTheFileOpenWritesLocksWithoutALabel) {
  const auto id = LockId::generate();
  open().grant(id, "k", 1h, Durability::machine);
  sql(file,
      "DROP TRIGGER output_record_removed; DROP TABLE output_chunks; DROP TABLE output_runs; "
      "DROP TRIGGER queued_record_removed; DROP TABLE queued; DROP TABLE queues; "
      "ALTER TABLE locks DROP COLUMN holder; PRAGMA user_version=3");
  Connection old(file);
  // Prepared before the file is taken forward, as that program's statements are.
  const Statement insert(old,
                         "INSERT INTO locks (key, id, fence, deadline_ms, ttl_ms, acquired_at_ms, "
                         "expires_at_ms, durable) SELECT CAST('theirs' AS BLOB), ?1, fence + 1, deadline_ms, "
                         "ttl_ms, acquired_at_ms, expires_at_ms, durable FROM locks");
  const Statement restamp(old, "UPDATE locks SET ttl_ms = ttl_ms WHERE key = CAST('labelled' AS BLOB)");
  auto backend = make_sqlite_lock_backend(file).value_or_throw();
  EXPECT_EQ(sql(file, "PRAGMA user_version"), "5");
  EXPECT_FALSE(test::lookup(*backend, "k")->holder) << "a lock of the older version";
  const auto theirs = LockId::generate();
  insert.execute(theirs.str());
  EXPECT_EQ(test::lookup(*backend, "theirs")->id, theirs);
  EXPECT_FALSE(test::lookup(*backend, "theirs")->holder);
  const auto label = LockHolder::from_setting("alice").value_or_throw();
  ASSERT_TRUE(test::try_acquire(
      *backend,
      {.id = LockId::generate(), .key = test::key("labelled"), .ttl = test::ttl(1h), .holder = label}));
  restamp.execute();
  EXPECT_EQ(test::lookup(*backend, "labelled")->holder, *label) << "its extend keeps the label";
}

TEST_F(SqliteStorage, AProgramThatKnowsVersion1OnlyRefusesTheFile) {
  static_cast<void>(records());
  Connection connection(file);
  try {
    refuse_others(connection, migrations().first(1));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable);
    EXPECT_NE(error.message().find("version 5"), std::string::npos) << error.message();
  }
}

TEST_F(SqliteStorage, LocksAndRecordsShareAFileAndAReboot) {
  const auto id = LockId::generate();
  {
    auto client = open(time);
    client.grant(id, "owner:task", 1h, Durability::machine);
    const auto store = records(time);
    test::create(*store, "owner:task", record_text({.expires_at = time.wall_ms + 60'000}));
    test::create(*store, "owner:for-ever");
  }
  time.reboot_after(59s);
  const auto store = records(time);
  EXPECT_EQ(test::tasks_of(*store, "owner"), (std::vector<std::string>{"for-ever", "task"}));
  EXPECT_EQ((*open(time).lookup("owner:task"))->id, id);
  time.pass(1s);
  EXPECT_FALSE(test::get(*store, "owner:task"));
}

TEST_F(SqliteStorage, AWallClockJumpHidesRecordsAndDestroysNone) {
  const auto store = records(time);
  const auto end = time.wall_ms + 60'000;
  const auto written = test::create(*store, "owner:task", record_text({.expires_at = end}));
  EXPECT_EQ(test::now_ms(*store), time.wall_ms);
  time.boot_ms += 120'000;
  EXPECT_TRUE(test::get(*store, "owner:task")) << "only the wall clock counts";
  time.wall_ms += 3'600'000;
  EXPECT_FALSE(test::get(*store, "owner:task"));
  test::create(*store, "owner:another");
  time.wall_ms = end - 1;
  ASSERT_TRUE(test::get(*store, "owner:task"));
  EXPECT_EQ(test::get(*store, "owner:task")->incarnation, written.incarnation);
  time.wall_ms = end;
  EXPECT_FALSE(test::get(*store, "owner:task"));
}

TEST_F(SqliteStorage, CleaningUpCountsWhatHasExpiredOfAllOwnersHoweverMuchItIs) {
  const auto store = records(time);
  sql(file,
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1300) "
      "INSERT INTO records (owner, task, created_at_ms, expires_at_ms, version, incarnation, origin, data) "
      "SELECT CAST('owner' || (i % 7) AS BLOB), CAST('task' || i AS BLOB), i, " +
          std::to_string(time.wall_ms) + " + i, 1, 'x', x'', x'7b7d' FROM n");
  test::create(*store, "owner1:for-ever");
  time.wall_ms += 1203;
  EXPECT_EQ(outcome(*store, CleanupRecords{}), 1203U);
  EXPECT_EQ(outcome(*store, CleanupRecords{}), 0U);
  EXPECT_EQ(rows(), 98U);
  time.wall_ms += 1000;
  EXPECT_EQ(outcome(*store, CleanupRecords{}), 97U);
  EXPECT_EQ(sql(file, "SELECT owner, records FROM owners"), "owner1|1") << "nothing is left of the others";
}

TEST_F(SqliteStorage, RecordsLongDeadAreForgottenByThoseWhoCreateOthers) {
  const auto store = records(time);
  for (int i = 0; i < 5; ++i) {
    test::create(*store, "once:" + std::to_string(i), record_text({.expires_at = time.wall_ms + 1}));
  }
  time.pass(24h);
  test::create(*store, "other:1");
  EXPECT_EQ(rows(), 6U) << "dead for less than a day";
  time.pass(1ms);
  test::create(*store, "other:2");
  EXPECT_EQ(rows(), 5U) << "two went, one came";
  test::create(*store, "other:3");
  test::create(*store, "other:4");
  EXPECT_EQ(rows(), 4U);
}

TEST_F(SqliteStorage, ExpiredRowsThatAFullQuotaMeetsAreDeletedOnceEvenIfItStaysFull) {
  const auto store = records(time);
  for (int i = 0; i < 3; ++i) {
    test::create(*store, "owner:brief" + std::to_string(i), record_text({.expires_at = time.wall_ms + 1}));
    test::create(*store, "owner:long" + std::to_string(i));
  }
  time.pass(1ms);
  EXPECT_EQ(rows(), 6U);
  EXPECT_EQ(std::get<QuotaReached>(*try_create(*store, "owner:new", 3)).records, 3U);
  EXPECT_EQ(rows(), 3U);
  EXPECT_TRUE(std::holds_alternative<Written>(*try_create(*store, "owner:new", 4)));
}

TEST_F(SqliteStorage, AFullQuotaIsExactAndItsExpiredRowsAreDeletedInSteps) {
  const auto store = records(time);
  sql(file,
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 450) "
      "INSERT INTO records (owner, task, created_at_ms, expires_at_ms, version, incarnation, origin, data) "
      "SELECT CAST('owner' AS BLOB), CAST('task' || i AS BLOB), i, CASE WHEN i <= 449 THEN " +
          std::to_string(time.wall_ms) + " + i END, 1, 'x', x'', x'7b7d' FROM n");
  time.wall_ms += 449;
  EXPECT_TRUE(std::holds_alternative<Written>(*try_create(*store, "owner:new1", 450)));
  EXPECT_EQ(rows(), 431U) << "twenty went, one came";
  EXPECT_TRUE(test::get(*store, "owner:task450"));
  EXPECT_EQ(sql(file, "SELECT min(expires_at_ms) FROM records"), std::to_string(time.wall_ms - 428))
      << "the oldest first";
  EXPECT_TRUE(std::holds_alternative<Written>(*try_create(*store, "owner:new2", 3)));
  EXPECT_EQ(rows(), 412U);
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(std::get<QuotaReached>(*try_create(*store, "owner:new3", 3)).records, 3U);
  }
  EXPECT_EQ(rows(), 3U);
}

TEST_F(SqliteStorage, WhatACreateAndAPageCostDoesNotDependOnHowManyRecordsThereAre) {
  static_cast<void>(records());
  Connection connection(file);
  const StorageTable table(connection);
  int steps = 0;  // of SQLite's virtual machine: as good as time, and always the same
  const auto count_step = [](void* counter) { return ++*static_cast<int*>(counter), 0; };
  sqlite3_progress_handler(connection.handle(), 1, count_step, &steps);
  const auto steps_of = [&](auto operation) { return steps = 0, operation(), steps; };
  const core::RecordEntry row{
      .record = {.data = {}, .version = 1, .incarnation = "x", .bound_to = {}, .origin = {}},
      .created_at = test::from_ms(500),
      .expires_at = test::from_ms(time.wall_ms + 1)};
  const auto create = [&] {
    EXPECT_FALSE(table.find(record_key("owner:new")).row);
    EXPECT_GE(table.count("owner"), 60U);
    EXPECT_EQ(table.count_expired("owner", test::from_ms(time.wall_ms), 10), 0U);
    EXPECT_EQ(table.remove_expired("owner", test::from_ms(time.wall_ms), 10), 0U);
    EXPECT_EQ(table.remove_expired(test::from_ms(time.wall_ms), 2), 0U);
    table.insert(record_key("owner:new"), row, "{}");
  };
  const auto page = [&](ListOrder order) {
    return [&table, order, now = time.wall_ms] {
      const auto found = table.page({.owner = "owner",
                                     .after = ListPosition{.created_at = test::from_ms(30), .task = {}},
                                     .order = order,
                                     .now = test::from_ms(now),
                                     .max_records = 20,
                                     .max_bytes = 1'000'000});
      EXPECT_EQ(found.page.records.size(), 20U);
    };
  };
  std::vector<std::vector<int>> costs;
  for (const int size : {60, 6000}) {
    sql(file,
        "DELETE FROM records; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
            std::to_string(size) +
            ") INSERT INTO records (owner, task, created_at_ms, expires_at_ms, version, incarnation, "
            "origin, data) SELECT CAST('owner' AS BLOB), CAST('task' || i AS BLOB), i, " +
            std::to_string(time.wall_ms + 1) + ", 1, 'x', x'', x'7b7d' FROM n");
    static_cast<void>(table.count("owner"));  // notices what the other connection did
    costs.push_back(
        {steps_of(create), steps_of(page(ListOrder::oldest_first)), steps_of(page(ListOrder::newest_first))});
  }
  EXPECT_EQ(costs[0], costs[1]);
}

TEST_F(SqliteStorage, WhatAPageOfOwnersCostsDoesNotDependOnHowManyThereAreNorOnTheirRecords) {
  static_cast<void>(records());
  Connection connection(file);
  const StorageTable table(connection);
  int steps = 0;
  const auto count_step = [](void* counter) { return ++*static_cast<int*>(counter), 0; };
  sqlite3_progress_handler(connection.handle(), 1, count_step, &steps);
  std::vector<int> costs;
  for (const auto& [owners, each] : {std::pair(100, 1), std::pair(100, 60), std::pair(6000, 1)}) {
    sql(file,
        "DELETE FROM records; WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < " +
            std::to_string(owners * each - 1) +
            ") INSERT INTO records (owner, task, created_at_ms, version, incarnation, origin, data) "
            "SELECT CAST('owner' || (i / " +
            std::to_string(each) + ") AS BLOB), CAST(i AS BLOB), i, 1, 'x', x'', x'7b7d' FROM n");
    static_cast<void>(table.count("owner1"));  // notices what the other connection did
    steps = 0;
    EXPECT_EQ(table.owners("owner3", 20).size(), 20U);
    costs.push_back(steps);
  }
  EXPECT_EQ(costs, std::vector<int>(3, costs[0]));
}

TEST_F(SqliteStorage, TheQuotaStaysTrueWhenRowsAreDeletedByHand) {
  const auto store = records();
  for (int i = 0; i < 3; ++i) test::create(*store, "owner:" + std::to_string(i));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(*try_create(*store, "owner:new", 3)));
  sql(file, "DELETE FROM records WHERE task = x'31'");
  EXPECT_TRUE(std::holds_alternative<Written>(*try_create(*store, "owner:new", 3)));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(*try_create(*store, "owner:newer", 3)));
}

TEST_F(SqliteStorage, ARowThatIsNoRecordIsInternalAndNamesTheFile) {
  const auto store = records();
  for (const char* damage : {"version = 0", "incarnation = ''", "fence = 1", "fence_key = x''",
                             "fence = -1, fence_key = x'', fence_authority = x''"}) {
    test::create(*store, "owner:task");
    sql(file, std::string("UPDATE records SET ") + damage);
    const auto got = test::call(*store, GetRecord{.key = record_key("owner:task")});
    ASSERT_FALSE(got) << damage;
    EXPECT_EQ(got.error().code(), ErrorCode::Internal) << damage;
    EXPECT_NE(got.error().message().find(file.string()), std::string::npos) << got.error().message();
    EXPECT_EQ(got.error().key(), "owner:task");
    const auto put =
        test::call(*store, PutRecord{.key = record_key("owner:task"), .data = record_data("{}")});
    EXPECT_EQ(put.error().code(), ErrorCode::Internal) << damage;
    sql(file, "DELETE FROM records");
  }
}

TEST_F(SqliteStorage, AListNamesTheRowsItCannotReadAndGivesTheRest) {
  const auto store = records();
  for (const char* task : {"1", "2", "3", "4"}) test::create(*store, std::string("owner:") + task);
  sql(file, "UPDATE records SET version = 0 WHERE task = x'32'");
  sql(file, "UPDATE records SET task = x'FF' WHERE task = x'34'");
  for (const std::size_t limit : {1U, 2U, 10U}) {
    std::vector<std::string> seen;
    ListRecords request{.prefix = "owner:", .limit = limit};
    for (int pages = 0; pages < 10; ++pages) {
      const auto page = test::call(*store, request).value_or_throw();
      EXPECT_LE(page.records.size() + page.unreadable.size(), limit);
      for (std::size_t i = 0; i <= page.records.size(); ++i) {
        for (const auto& unreadable : page.unreadable) {
          if (unreadable.follows == i) seen.push_back('!' + unreadable.task);
        }
        if (i < page.records.size()) seen.emplace_back(page.records[i].key.task());
      }
      if (!page.next) break;
      request.after = page.next;
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"1", "!2", "3", "!\xFF"})) << limit;
  }
}

TEST_F(SqliteStorage, OutputIsReadFromOneStateOfTheFileWhileAnotherProcessReplacesIt) {
  constexpr std::size_t keep = std::size_t{64} * 1024;
  constexpr std::uint64_t appends = 100;
  const auto text = [](std::uint64_t from, std::uint64_t to) {
    std::string bytes;
    for (auto at = from; at < to; ++at) bytes += static_cast<char>(at * 7 + at / 256);
    return bytes;
  };
  const auto writer = records(), reader = records();
  test::create(*writer, "o:t");
  std::atomic<bool> ended = false;
  std::jthread writing([&] {
    for (std::uint64_t i = 0; i < appends; ++i) {
      const auto at = i * keep;
      (void)test::call(*writer, AppendOutput{.key = record_key("o:t"),
                                             .fence = test::token(1),
                                             .pieces = {OutputPiece{.at = at, .bytes = text(at, at + keep)},
                                                        OutputPiece{}},
                                             .keep = keep});
    }
    ended = true;
  });
  for (bool last = false; !last;) {
    last = ended;
    const auto read = test::call(*reader, ReadOutput{.key = record_key("o:t")});
    ASSERT_TRUE(read) << read.error().what();
    const auto& out = (*read)->pieces[0];
    ASSERT_EQ(out.at % keep, 0U);
    ASSERT_TRUE(out.bytes == text(out.at, out.at + out.bytes.size())) << "from " << out.at;
    if (last) {
      EXPECT_EQ(out.at, (appends - 1) * keep);
      EXPECT_EQ(out.bytes.size(), keep);
    }
  }
}

TEST_F(SqliteStorage, NothingIsWrittenToAFileThatWasMoved) {
  const auto store = records();
  test::create(*store, "owner:task");
  std::filesystem::rename(file, directory.path() / "elsewhere.db");
  for (const auto& error :
       {try_create(*store, "owner:other").error(),
        test::call(*store, PutRecord{.key = record_key("owner:task"), .data = record_data("{}")}).error(),
        test::call(*store, RemoveRecord{.key = record_key("owner:task")}).error(),
        test::call(*store, BindRecord{.key = record_key("owner:task"), .fence = test::token(1)}).error(),
        test::call(*store, CleanupRecords{}).error()}) {
    EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable);
    EXPECT_NE(error.message().find(file.string()), std::string::npos) << error.message();
  }
}

TEST_F(SqliteStorage, AFileThatAnotherClockTookOverIsRefused) {
  const auto store = records(time);
  test::create(*store, "owner:task");
  sql(file, "UPDATE meta SET clock = clock + 1");  // as a build would that asks nobody
  EXPECT_EQ(test::call(*store, GetRecord{.key = record_key("owner:task")}).error().code(),
            ErrorCode::ServiceUnavailable);
  EXPECT_EQ(try_create(*store, "owner:new").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(test::call(*store, ListRecords{.prefix = "nobody:"}).error().code(),
            ErrorCode::ServiceUnavailable);
}

TEST_F(SqliteStorage, AReleaseWakesTheLocksWaiterNotTheWatcherOfARecordOfThatName) {
  const auto store = records();
  auto client = open();
  const auto id = LockId::generate();
  client.grant(id, "owner:task");
  std::atomic<bool> record_woken = false, lock_woken = false;
  // Whoever sleeps first is woken first, if they are confused.
  std::stop_source stop;
  const auto of_record = test::watch_of(*store, record_key("owner:task"));
  const auto of_lock = test::watch_of(client.backend(), *LockKey::parse("owner:task"));
  ASSERT_TRUE(of_record && of_lock);
  std::thread record_watcher(
      [&] { record_woken = test::wait_until(*of_record, BootClock::now() + 20s, stop.get_token()); });
  std::this_thread::sleep_for(20ms);
  std::thread lock_watcher([&] { lock_woken = test::wait_until(*of_lock, BootClock::now() + 20s, {}); });
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(released(client.release(id)));
  lock_watcher.join();
  EXPECT_TRUE(lock_woken);
  stop.request_stop();
  record_watcher.join();
  EXPECT_FALSE(record_woken);
}

class SqliteStorageProcesses : public SqliteStorage {};

TEST_F(SqliteStorageProcesses, TogetherCreateExactlyAsManyAsTheQuotaAllows) {
  struct State {
    std::atomic<int> written = 0, refused = 0, failed = 0;
  };
  const test::Shared<State> state;
  constexpr int processes = 2, creators = 25, attempts = 4;
  test::in_processes(processes, [&](int process) {
    const auto store = records();
    std::vector<std::thread> threads;
    for (int creator = 0; creator < creators; ++creator) {
      threads.emplace_back([&, creator] {
        for (int i = 0; i < attempts; ++i) {
          const auto name = std::to_string(process) + "-" + std::to_string(creator) + "-" + std::to_string(i);
          const auto made = test::call(
              *store,
              CreateRecord{.key = record_key("owner:" + name), .data = record_data("{}"), .quota = 100});
          if (!made) {
            ++state->failed;
          } else if (std::holds_alternative<Written>(*made)) {
            ++state->written;
          } else if (std::holds_alternative<QuotaReached>(*made)) {
            ++state->refused;
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return true;
  });
  EXPECT_EQ(state->written, 100);
  EXPECT_EQ(state->refused, processes * creators * attempts - 100);
  EXPECT_EQ(state->failed, 0);
  EXPECT_EQ(test::tasks_of(*records(), "owner").size(), 100U);
}

TEST_F(SqliteStorageProcesses, AChangeWakesTheWatchersOfEachOfThem) {
  const test::Shared<std::atomic<int>> watching;
  test::create(*records(), "owner:task");
  test::in_processes(3, [&](int process) {
    const auto store = records();
    if (process == 0) {
      while (*watching < 2) std::this_thread::yield();
      std::this_thread::sleep_for(20ms);
      test::put(*store, "owner:task", R"({"done":true})");
      return true;
    }
    const auto watch = test::watch_of(*store, record_key("owner:task"));
    if (!watch || test::get(*store, "owner:task")->version != 1) return false;
    ++*watching;
    while (test::wait_until(*watch, BootClock::now() + 20s, {})) {
      if (test::get(*store, "owner:task")->version == 2) return true;
    }
    return false;
  });
}

}  // namespace
}  // namespace holdfast::sqlite
