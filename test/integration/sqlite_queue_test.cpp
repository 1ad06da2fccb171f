#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "engine/sqlite/backends.hpp"
#include "engine/sqlite/migrations.hpp"
#include "engine/sqlite/queue.hpp"
#include "integration/sqlite_fixture.hpp"
#include "support/in_child.hpp"
#include "support/processes.hpp"
#include "support/queue_calls.hpp"

namespace holdfast::sqlite {
namespace {

using test::claim_next;
using test::claim_one;
using test::claim_terms;
using test::enqueue;
using test::queue_state;
using test::renew;

class SqliteQueues : public SqliteTest {
 protected:
  std::shared_ptr<StorageBackend> records() { return make_sqlite_storage_backend(file).value_or_throw(); }
  std::shared_ptr<StorageBackend> records(FakeClock& fake) {
    return open_storage_backend(file, {}, {}, fake.clock()).value_or_throw();
  }
  /// Adds rows to the queue of "q", in this place.
  void add_rows(int from, int count, int place) const {
    const auto first = std::to_string(from), last = std::to_string(from + count - 1),
               where = std::to_string(place);
    sql(file, "BEGIN; WITH RECURSIVE n(i) AS (SELECT " + first + " UNION ALL SELECT i + 1 FROM n WHERE i < " +
                  last +
                  ") INSERT INTO records (owner, task, created_at_ms, version, incarnation, origin, data) "
                  "SELECT x'71', CAST('row' || i AS BLOB), i, 1, 'x', x'', x'7b7d' FROM n; "
                  "INSERT INTO queued SELECT record, owner, task, " +
                  where + ", 0, created_at_ms, 1e15, 2e15, CASE " + where +
                  " WHEN 2 THEN 1e15 ELSE 0 END, 30000, 0, 0, 0, 0, 0, 5, NULL, 1000, 0, 0, x'', 0, CASE " +
                  where +
                  " WHEN 5 THEN x'6b' END, 1, created_at_ms, 0 FROM records WHERE created_at_ms BETWEEN " +
                  first + " AND " + last + " AND version = 1 AND incarnation = 'x'; COMMIT");
  }

  FakeClock time;
};

TEST_F(SqliteQueues, AFileOfVersion4KeepsItsRecordsAndGetsQueues) {
  test::create(*records(), "q:old");
  sql(file,
      "DROP TRIGGER output_record_removed; DROP TABLE output_chunks; DROP TABLE output_runs; "
      "DROP TRIGGER queued_record_removed; DROP TABLE queued; DROP TABLE queues; PRAGMA user_version=4");
  const auto store = records();
  EXPECT_EQ(sql(file, "PRAGMA user_version"), "5");
  EXPECT_FALSE(test::get(*store, "q:old").value().queue);
  enqueue(*store, "q:new");
  EXPECT_EQ(claim_one(*store).key.task(), "new");
  // As a program of version 4 that has the file open does it.
  sql(file, "DELETE FROM records WHERE task = CAST('new' AS BLOB)");
  EXPECT_EQ(sql(file, "SELECT count(*) FROM queued; SELECT count(*) FROM queues"), "0|0");
}

TEST_F(SqliteQueues, AfterARebootTheTasksOfItsWorkersAreReadyAgain) {
  std::optional<ClaimedRecord> before;
  {
    const auto store = records(time);
    enqueue(*store, "q:a");
    before = claim_one(*store, claim_terms(1, "worker", 24h));
  }
  time.reboot_after(1s);
  const auto store = records(time);
  EXPECT_EQ(queue_state(*store, "q:a").place, QueuePlace::leased) << "until a claim finds out";
  EXPECT_FALSE(renew(*store, *before).is_held);
  const auto after = claim_one(*store);
  EXPECT_EQ(after.record.queue->attempts, 2U);
  EXPECT_EQ(after.record.queue->deaths, 1U);
  EXPECT_GT(after.record.bound_to->fence, before->record.bound_to->fence);
  EXPECT_NE(test::refused_with(ErrorCode::StaleFence, test::finish(*store, *before).end), nullptr);
}

TEST_F(SqliteQueues, AContainerThatStartsKeepsTheLeasesOfWorkersThatMayBeAlive) {
  std::vector<ClaimedRecord> before;
  {
    const auto store = records(time);
    enqueue(*store, "q:short");
    enqueue(*store, "q:long", {.attempt_limit = 50s});
    before.push_back(claim_one(*store, claim_terms(1, "worker", 10s)));
    before.push_back(claim_one(*store, claim_terms(1, "worker", 30s)));
  }
  // Another kernel, as it seems: its clock is elsewhere. Only the wall clock tells what is left.
  time.start_container("container-1");
  time.boot_ms = 5'000;
  time.wall_ms += 20'000;
  const auto store = records(time);
  EXPECT_FALSE(renew(*store, before[0]).is_held);
  const auto renewed = renew(*store, before[1]);
  EXPECT_TRUE(renewed.is_held);
  EXPECT_LE(renewed.lasts, 50s);
  EXPECT_EQ(test::names_of(claim_next(*store, claim_terms(9)).claimed), std::vector<std::string>{"short"});
}

TEST_F(SqliteQueues, AWallClockJumpNeitherFreesNorProlongsALease) {
  for (const auto jump : {3'600'000, -7'200'000}) {
    const auto store = records(time);
    enqueue(*store, "q:t");
    const auto claimed = claim_one(*store, claim_terms(1, "worker", 30s));
    time.wall_ms += jump;
    time.pass(29'999ms);
    EXPECT_TRUE(claim_next(*store).claimed.empty());
    EXPECT_TRUE(renew(*store, claimed, 1ms).is_held);
    time.pass(1ms);
    EXPECT_FALSE(renew(*store, claimed).is_held);
    EXPECT_EQ(claim_one(*store).record.queue->deaths, 1U);
    test::remove(*store, "q:t");
  }
}

TEST_F(SqliteQueues, DueTimesFollowTheWallClock) {
  const auto store = records(time);
  enqueue(*store, "q:t", {.not_before = test::from_ms(time.wall_ms + 60'000)});
  time.boot_ms += 120'000;
  EXPECT_TRUE(claim_next(*store).claimed.empty());
  time.wall_ms += 60'000;
  EXPECT_EQ(claim_one(*store).key.task(), "t");
}

TEST_F(SqliteQueues, NothingIsLeftOfFinishedTasksNorOfAQueueThatSaysNothing) {
  const auto store = records(time);
  const auto left = [&] {
    return sql(file,
               "SELECT count(*) FROM records; SELECT count(*) FROM owners; SELECT count(*) FROM queued;"
               "SELECT count(*) FROM queues");
  };
  test::pause(*store);
  test::limit_leases(*store, 3);
  for (int i = 0; i < 6; ++i) enqueue(*store, "q:" + std::to_string(i), {.max_attempts = 1});
  test::pause(*store, false);
  test::limit_leases(*store, 0);
  for (const auto& claimed : claim_next(*store, claim_terms(3)).claimed) {
    test::finish(*store, claimed, test::record_text({.expires_at = time.wall_ms + 10}));
  }
  test::retry(*store, claim_one(*store));
  for (const auto& one : claim_next(*store, claim_terms(1, "w", 1s)).exhausted) {
    test::outcome(*store,
                  PutRecord{.key = one.key,
                            .data = test::record_data(test::record_text({.expires_at = time.wall_ms})),
                            .leaves_queue = true});
  }
  EXPECT_EQ(left(), "6|1|6|1");
  EXPECT_TRUE(test::remove(*store, "q:5"));
  EXPECT_TRUE(test::remove(*store, "q:4"));
  EXPECT_EQ(sql(file, "SELECT count(*) FROM queues"), "0") << "all others have left the queue";
  time.pass(10ms);
  EXPECT_EQ(test::outcome(*store, CleanupRecords{}), 4U);
  EXPECT_EQ(left(), "0|0|0|0");
  test::pause(*store);
  EXPECT_EQ(left(), "0|0|0|1");
  test::pause(*store, false);
  EXPECT_EQ(left(), "0|0|0|0");
}

TEST_F(SqliteQueues, CountsStayTrueWhenRowsAreDeletedByHand) {
  const auto store = records();
  for (int i = 0; i < 5; ++i) enqueue(*store, "q:" + std::to_string(i));
  claim_next(*store, claim_terms(2));
  sql(file, "DELETE FROM records WHERE task IN (x'30', x'33')");
  const auto counts = test::count_queue(*store);
  EXPECT_EQ(counts.ready, 2U);
  EXPECT_EQ(counts.leased, 1U);
  EXPECT_EQ(counts.records, 3U);
  EXPECT_EQ(test::names_of(claim_next(*store, claim_terms(9)).claimed), (std::vector<std::string>{"2", "4"}));
}

TEST_F(SqliteQueues, CountsAreOfOneStateOfTheFile) {
  const auto worker = records(), viewer = records();
  enqueue(*worker, "q:t");
  std::atomic<bool> ended = false;
  std::jthread working([&] {
    for (int i = 0; i < 150; ++i) test::give_back(*worker, claim_one(*worker));
    ended = true;
  });
  while (!ended) {
    const auto counts = test::count_queue(*viewer);
    ASSERT_EQ(counts.ready + counts.leased, 1U);
    ASSERT_EQ(counts.oldest_ready.has_value(), counts.ready == 1);
  }
}

TEST_F(SqliteQueues, ARowThatIsDeletedMakesRoomForAParkedOne) {
  const auto store = records(time);
  const QueueTerms keyed{.limit_key = "k"};
  for (const auto* key : {"q:a", "q:b", "q:c"}) enqueue(*store, key, keyed);
  EXPECT_EQ(claim_next(*store, claim_terms(9)).claimed.size(), 1U);
  EXPECT_EQ(sql(file, "SELECT ready, leased, parked FROM queues"), "0|1|2");
  sql(file, "DELETE FROM records WHERE task = x'61'");  // leased
  EXPECT_EQ(sql(file, "SELECT ready, leased, parked FROM queues"), "1|0|1");
  // One that is ready, and expires: another client wrote that.
  test::outcome(*store,
                PutRecord{.key = test::record_key("q:b"),
                          .data = test::record_data(test::record_text({.expires_at = time.wall_ms + 10}))});
  time.pass(10ms);
  EXPECT_EQ(test::outcome(*store, CleanupRecords{}), 1U);
  EXPECT_EQ(claim_one(*store).key.task(), "c");
}

TEST_F(SqliteQueues, ARowThatIsNoEntryIsInternal) {
  const auto store = records();
  for (const char* damage : {"place = 7", "place = -1", "attempts = -1", "sequence = -7", "deaths = 1e10"}) {
    enqueue(*store, "q:t");
    sql(file, std::string("UPDATE queued SET ") + damage);
    const auto got = test::call(*store, GetRecord{.key = test::record_key("q:t")});
    ASSERT_FALSE(got) << damage;
    EXPECT_EQ(got.error().code(), ErrorCode::Internal) << damage;
    sql(file, "DELETE FROM records; DELETE FROM queues");
  }
}

TEST_F(SqliteQueues, ClaimsAndLocksShareOneSequenceOfFences) {
  const auto store = records();
  auto client = open();
  const auto before = client.grant(LockId::generate(), "k").fence;
  enqueue(*store, "q:t");
  const auto claimed = claim_one(*store);
  EXPECT_EQ(claimed.record.bound_to->fence.value(), before.value() + 1);
  EXPECT_EQ(claimed.record.bound_to->authority, client.backend().authority());
  EXPECT_EQ(client.grant(LockId::generate(), "k2").fence.value(), before.value() + 2);
}

TEST_F(SqliteQueues, ClaimsReserveFencesBeforeTheyGrantThem) {
  const auto store = records();
  for (int i = 0; i < 10; ++i) enqueue(*store, "q:" + std::to_string(i));
  for (const char* left : {"3", "0"}) {
    sql(file, std::string("UPDATE meta SET fence_last = (SELECT fence_in_file FROM closing) - ") + left);
    const auto last = std::stoull(sql(file, "SELECT fence_last FROM meta"));
    const auto claimed = claim_next(*store, claim_terms(5)).claimed;
    ASSERT_EQ(claimed.size(), 5U);
    for (std::size_t i = 0; i < claimed.size(); ++i) {
      EXPECT_EQ(claimed[i].record.bound_to->fence.value(), last + 1 + i);
      EXPECT_EQ(claimed[i].record.queue->attempts, 1U) << "an attempt that was rolled back does not count";
    }
    EXPECT_GE(std::stoull(sql(file, "SELECT fence_in_file FROM closing")), last + 5);
    EXPECT_EQ(sql(file, "SELECT fence_last FROM meta"), std::to_string(last + 5));
  }
}

TEST_F(SqliteQueues, AnEndWithTheNextClaimKeepsItsDataWhenFencesMustBeReserved) {
  const auto store = records();
  enqueue(*store, "q:a");
  enqueue(*store, "q:b");
  auto request = test::end_of(claim_one(*store), LeaseEnd::finished, "final");
  request.then = claim_terms();
  sql(file, "UPDATE meta SET fence_last = (SELECT fence_in_file FROM closing)");
  const auto ended = test::outcome(*store, request);
  EXPECT_EQ(ended.next.value().claimed.size(), 1U);
  EXPECT_EQ(test::get(*store, "q:a")->data, "final");
}

/// The operations of a queue, on a connection whose steps are counted.
TEST_F(SqliteQueues, WhatAnOperationCostsDoesNotDependOnTheLengthOfTheQueueNorOnFinishedAndParkedTasks) {
  static_cast<void>(records());
  Connection connection(file);
  const StorageTable table(connection);
  int steps = 0;  // of SQLite's virtual machine: as good as time, and always the same
  const auto count_step = [](void* counter) { return ++*static_cast<int*>(counter), 0; };
  sqlite3_progress_handler(connection.handle(), 1, count_step, &steps);
  const core::QueueTime now{.wall = test::from_ms(time.wall_ms), .leases = 1000ms};
  const std::string authority = "a";
  const auto key = test::record_key("q:new");

  const auto costs = [&] {
    std::vector<int> found;
    const auto measure = [&](auto operation) {
      steps = 0;
      operation();
      found.push_back(steps);
    };
    connection.execute("BEGIN IMMEDIATE");
    SqliteQueue queue(table, "q", now, authority);
    queue.use({.last = 5, .reserved = 1000000, .in_file = 1000000}, LowReserve::use_up, nullptr, nullptr);
    core::QueueSteps<SqliteQueue> work(queue, now);
    std::optional<ClaimedRecord> claimed;
    measure([&] {
      const core::RecordEntry row{
          .record = {.data = {}, .version = 1, .incarnation = "y", .bound_to = {}, .origin = {}},
          .created_at = now.wall,
          .expires_at = std::nullopt};
      table.insert(key, row, "{}");
      table.queues().insert(key, core::enter_queue({.priority = 1, .limit_key = "k"}, now.wall,
                                                   table.queues().find("q").head.next_sequence));
    });
    measure([&] { claimed = work.claim_next(claim_terms()).value_or_throw().claimed.at(0); });
    EXPECT_EQ(claimed->key.str(), "q:new");
    measure([&] {
      EXPECT_TRUE(
          work.renew({.owner = "q", .leases = {test::lease_of(*claimed)}, .lease = 1s}).at(0).is_held);
    });
    measure([&] { static_cast<void>(queue.count()); });
    measure([&] { static_cast<void>(work.offer()); });
    measure([&] {
      auto request = test::end_of(*claimed, LeaseEnd::finished, "final");
      request.then = claim_terms();
      EXPECT_EQ(work.end(request).next.value().claimed.size(), 1U);
    });
    measure([&] {
      auto request = test::end_of(work.claim_next(claim_terms()).value_or_throw().claimed.at(0),
                                  LeaseEnd::finished, "final");
      request.max_dead = table.queues().find("q").head.dead;
      EXPECT_TRUE(std::holds_alternative<Written>(work.end(request).end));
    });
    connection.execute("ROLLBACK");
    return found;
  };
  for (int place = 0; place <= 6; ++place) add_rows(place * 1000 + 1, 20, place);
  const auto few = costs();
  for (int place = 0; place <= 6; ++place) add_rows(10'000 + place * 3000, 3000, place);
  EXPECT_EQ(sql(file, "SELECT delayed, ready, leased, exhausted, parked, dead FROM queues"),
            "3020|3020|3020|3020|3020|3020");
  EXPECT_EQ(costs(), few);
}

TEST_F(SqliteQueues, ALeaseOfAProcessThatHasEndedIsFreeAtOnceIfTheWorkEndsWithIt) {
  for (const char* task : {"q:a", "q:b"}) enqueue(*records(), task);
  EXPECT_TRUE(test::in_child([&] {
    const auto store = records();
    auto terms = claim_terms();
    const auto first = claim_one(*store, terms);
    terms.ends_with_process = true;
    const auto second = claim_one(*store, terms);
    return first.key.task() == "a" && second.key.task() == "b" && renew(*store, second).is_held;
  }));
  const auto store = records();
  const auto next = claim_one(*store);
  EXPECT_EQ(next.key.task(), "b");
  EXPECT_EQ(next.record.queue->deaths, 1U);
  EXPECT_TRUE(claim_next(*store).claimed.empty()) << "the other lease runs on: its work may too";
}

TEST_F(SqliteQueues, ALeaseOfALivingProcessIsNotFreeAndACopyOfItsMarkKeepsIt) {
  enqueue(*records(), "q:a");
  auto terms = claim_terms();
  terms.ends_with_process = true;
  auto holder = records();
  const auto claimed = claim_one(*holder, terms);
  const auto other = records();
  EXPECT_TRUE(claim_next(*other).claimed.empty());
  const int copy = ::fcntl(holder->process_mark(), F_DUPFD_CLOEXEC, 0);
  ASSERT_GE(copy, 0);
  holder.reset();  // as if its process had ended
  EXPECT_TRUE(claim_next(*other).claimed.empty());
  EXPECT_TRUE(std::holds_alternative<NotClaimable>(test::claim_record(*other, "q:a")));
  ::close(copy);
  EXPECT_TRUE(std::holds_alternative<ClaimedRecord>(test::claim_record(*other, "q:a")));
  EXPECT_NE(test::refused_with(ErrorCode::StaleFence, test::finish(*other, claimed).end), nullptr);
}

TEST_F(SqliteQueues, AClaimOfABusyQueueLooksForProcessesThatHaveEndedOnceASecond) {
  auto terms = claim_terms();
  terms.ends_with_process = true;
  auto holder = records(time);
  enqueue(*holder, "q:urgent", {.priority = 5});
  EXPECT_EQ(claim_one(*holder, terms).key.task(), "urgent");
  const auto other = records(time);
  for (const char* task : {"q:a", "q:b", "q:c"}) enqueue(*other, task);
  EXPECT_EQ(claim_one(*other).key.task(), "a");
  holder.reset();  // as if its process had ended
  time.pass(999ms);
  EXPECT_EQ(claim_one(*other).key.task(), "b") << "it has looked less than a second ago";
  time.pass(1ms);
  EXPECT_EQ(claim_one(*other).key.task(), "urgent");
}

TEST_F(SqliteQueues, AClaimThatFindsManyLeasesOfAProcessThatHasEndedSaysThatThereMayBeMore) {
  auto terms = claim_terms(100);
  terms.ends_with_process = true;
  auto holder = records(time);
  for (int i = 0; i < 150; ++i) enqueue(*holder, "q:" + std::to_string(i), {.max_attempts = 1});
  enqueue(*holder, "q:again", {.max_attempts = 2});
  EXPECT_EQ(claim_next(*holder, terms).claimed.size(), 100U);
  EXPECT_EQ(claim_next(*holder, terms).claimed.size(), 51U);
  const auto other = records(time);
  holder.reset();  // as if its process had ended
  const auto early = claim_next(*other);
  EXPECT_TRUE(early.claimed.empty());
  EXPECT_EQ(early.look_again_after, 0ms);
  EXPECT_EQ(claim_one(*other).key.task(), "again");
}

TEST_F(SqliteQueues, AMarkInAnotherFileOfWakeUpsSaysNothing) {
  enqueue(*records(), "q:a");
  auto terms = claim_terms();
  terms.ends_with_process = true;
  const auto holder = records();
  (void)claim_one(*holder, terms);
  const auto wake = file.string() + "-wake";
  std::filesystem::rename(wake, wake + ".old");  // its inode is not given to the next one
  EXPECT_TRUE(claim_next(*records()).claimed.empty());
}

TEST_F(SqliteQueues, ConcurrentProcessesFinishEachTaskOnce) {
  constexpr int tasks = 60, processes = 3;
  {
    const auto store = records();
    for (int i = 0; i < tasks; ++i) enqueue(*store, "q:" + std::to_string(i));
  }
  const test::Shared<std::atomic<int>> finished;
  test::in_processes(processes, [&](int) {
    const auto store = records();
    for (auto next = claim_next(*store); !next.claimed.empty();) {
      auto request = test::end_of(next.claimed[0], LeaseEnd::finished, "final");
      request.then = claim_terms();
      auto ended = test::outcome(*store, request);
      if (!std::holds_alternative<Written>(ended.end)) return false;
      ++*finished;
      next = std::move(ended.next).value();
    }
    return true;
  });
  EXPECT_EQ(*finished, tasks);
  EXPECT_EQ(sql(file, "SELECT count(*), min(attempts), max(attempts) FROM queued WHERE place = 4"),
            std::to_string(tasks) + "|1|1");
  EXPECT_EQ(sql(file, "SELECT count(*) FROM queues"), "0");
}

}  // namespace
}  // namespace holdfast::sqlite
