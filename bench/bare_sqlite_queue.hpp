// The least that a job of a queue in a file can cost: its transactions, without the engine.

#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// A connection with a queue of its own. Adds and ends wait for the disk, claims do not, as those of the
/// engine.
class BareQueue {
 public:
  enum class Tables : std::uint8_t {
    engines,  ///< the engine's own, with their indexes and triggers, in a file that it has made
    least,    ///< one table, an index for the names and one for the order: neither expiry, limits nor counts
  };

  BareQueue(const std::filesystem::path& file, Tables tables) {
    check(sqlite3_open(file.c_str(), &db_));
    // Page size, log and checkpoints are the engine's.
    run("PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=8192;");
    if (tables == Tables::least) {
      run("CREATE TABLE jobs (job INTEGER PRIMARY KEY, task BLOB, place INTEGER, sequence INTEGER, fence "
          "INTEGER,"
          " data BLOB);"
          "CREATE UNIQUE INDEX jobs_by_name ON jobs (task);"
          "CREATE INDEX jobs_ready ON jobs (sequence) WHERE place = 1;");
      add_ = {prepare("INSERT INTO jobs (task, place, sequence, fence, data) VALUES (?1, 1, ?2, 0, ?3)")};
      ready_ = prepare("SELECT job, data FROM jobs WHERE place = 1 ORDER BY sequence LIMIT 1");
      claim_ = {prepare("UPDATE jobs SET place = 2, fence = ?2 WHERE job = ?1")};
      end_ = {prepare("UPDATE jobs SET place = 4, data = ?2 WHERE job = ?1")};
    } else {
      auto* const synced = prepare("UPDATE meta SET synced_commits = synced_commits + 1");
      add_ = {
          prepare("INSERT INTO records (owner, task, created_at_ms, version, incarnation, origin, data)"
                  " VALUES (x'71', ?1, ?2, 1, 'aaaaaaaaaaaaaaaaaaaaaa', x'', ?3)"),
          prepare(
              "INSERT INTO queued (record, queue, name, place, priority, sequence, due_at_ms, fails_at_ms,"
              " lease_deadline_ms, lease_ms, lease_expires_at_ms, attempt_deadline_ms, claimed_at_ms, "
              "attempts, deaths,"
              " max_attempts, max_age_ms, attempt_limit_ms, retention_ms, worker, failed_retention_ms, "
              "key_limit,"
              " died_at_ms) VALUES (last_insert_rowid(), x'71', ?1, 1, 0, ?2, ?2, ?2 + 1209600000, 0, 0, 0, "
              "0, 0, 0, 0, 5,"
              " 1209600000, 0, 86400000, x'', 604800000, 0, 0)"),
          synced};
      ready_ = prepare(
          "SELECT records.record, data FROM queued JOIN records USING (record) WHERE queue = x'71' AND place "
          "= 1"
          " ORDER BY priority DESC, sequence LIMIT 1");
      claim_ = {
          prepare("UPDATE records SET fence = ?2, fence_authority = '00000000-0000-0000-0000-000000000000',"
                  " fence_key = x'71' || ':' || task WHERE record = ?1"),
          prepare("UPDATE queued SET place = 2, lease_deadline_ms = 30000 + ?2, lease_ms = 30000, "
                  "lease_expires_at_ms = 30000,"
                  " claimed_at_ms = 1, attempts = 1, worker = 'a worker' WHERE record = ?1"),
          prepare("UPDATE meta SET fence_last = ?2 + 0 * ?1")};
      end_ = {
          prepare(
              "UPDATE records SET data = ?2, version = 2, expires_at_ms = 1900000000000 WHERE record = ?1"),
          prepare("UPDATE queued SET place = 4, lease_deadline_ms = 0, lease_ms = 0, lease_expires_at_ms = 0"
                  " WHERE record = ?1"),
          synced};
    }
    begin_ = prepare("BEGIN IMMEDIATE");
    commit_ = prepare("COMMIT");
  }
  ~BareQueue() {
    while (auto* statement = sqlite3_next_stmt(db_, nullptr)) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  BareQueue(const BareQueue&) = delete;
  BareQueue& operator=(const BareQueue&) = delete;

  void add(std::string_view task, std::string_view data) {
    wait_for_disk(true);
    step(begin_);
    ++number_;
    for (auto* statement : add_) {
      bind(statement, 1, task);
      bind(statement, 2, number_);
      bind(statement, 3, data);
      step(statement);
    }
    step(commit_);
  }
  /// Claims the first job and ends it.
  void work(std::string_view result) {
    wait_for_disk(false);
    step(begin_);
    if (sqlite3_step(ready_) != SQLITE_ROW) fail("no job is ready");
    const auto job = sqlite3_column_int64(ready_, 0);
    const std::string data(static_cast<const char*>(sqlite3_column_blob(ready_, 1)),
                           static_cast<std::size_t>(sqlite3_column_bytes(ready_, 1)));
    check(sqlite3_reset(ready_));
    for (auto* statement : claim_) {
      bind(statement, 1, job);
      bind(statement, 2, ++fence_);
      step(statement);
    }
    step(commit_);
    wait_for_disk(true);
    step(begin_);
    for (auto* statement : end_) {
      bind(statement, 1, job);
      bind(statement, 2, result);
      step(statement);
    }
    step(commit_);
  }

 private:
  [[noreturn]] static void fail(const char* why) {
    std::fprintf(stderr, "SQLite: %s\n", why);
    std::exit(1);
  }
  static void check(int result) {
    if (result != SQLITE_OK) fail(sqlite3_errstr(result));
  }
  void run(const char* sql) { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr));
    return statement;
  }
  /// Binds what the statement asks for.
  static void bind(sqlite3_stmt* statement, int at, std::int64_t value) {
    if (at <= sqlite3_bind_parameter_count(statement)) check(sqlite3_bind_int64(statement, at, value));
  }
  static void bind(sqlite3_stmt* statement, int at, std::string_view value) {
    if (at > sqlite3_bind_parameter_count(statement)) return;
    check(sqlite3_bind_blob(statement, at, value.data(), static_cast<int>(value.size()), SQLITE_STATIC));
  }
  static void step(sqlite3_stmt* statement) {
    if (sqlite3_step(statement) != SQLITE_DONE) fail("a statement has not ended");
    check(sqlite3_reset(statement));
  }
  /// SQLite carries this pragma out when it is prepared, so it cannot be kept as a statement.
  void wait_for_disk(bool waits) {
    if (waits == waits_) return;
    run(waits ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    waits_ = waits;
  }

  sqlite3* db_ = nullptr;
  sqlite3_stmt *begin_ = nullptr, *commit_ = nullptr, *ready_ = nullptr;
  std::vector<sqlite3_stmt*> add_, claim_, end_;
  std::int64_t number_ = 0, fence_ = 0;
  bool waits_ = true;  // the default of a new connection
};

}  // namespace bench
