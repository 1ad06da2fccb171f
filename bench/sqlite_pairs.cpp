// Acquire + release pairs per second of the SQLite engine, beside the same bare SQL transactions (one
// insert and one counter update, then one delete), with commits that wait for the disk and without.
// The two take turns within one run, so that a noisy machine disturbs both alike.

#include <sqlite3.h>

#include <cstdlib>

#include "sqlite_fixture.hpp"

namespace {

using holdfast::Durability;

class BareTransactions {
 public:
  BareTransactions(const std::filesystem::path& file, Durability durability) {
    check(sqlite3_open(file.c_str(), &db_));
    run("PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=8192;");
    run(durability == Durability::machine ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    run("CREATE TABLE meta (one INTEGER PRIMARY KEY, fence INTEGER);"
        "INSERT INTO meta VALUES (1, 0);"
        "CREATE TABLE locks (key BLOB PRIMARY KEY, id TEXT, fence INTEGER, deadline INTEGER) WITHOUT ROWID;"
        "CREATE UNIQUE INDEX locks_by_id ON locks (id);");
    begin_ = prepare("BEGIN IMMEDIATE");
    commit_ = prepare("COMMIT");
    raise_ = prepare("UPDATE meta SET fence = fence + 1");
    insert_ =
        prepare("INSERT INTO locks SELECT 'k', 'aaaaaaaaaaaaaaaaaaaaaa', fence, 1700000000000 FROM meta");
    remove_ = prepare("DELETE FROM locks WHERE key = 'k'");
  }
  ~BareTransactions() {
    for (auto* statement : {begin_, commit_, raise_, insert_, remove_}) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  BareTransactions(const BareTransactions&) = delete;
  BareTransactions& operator=(const BareTransactions&) = delete;

  void pair() {
    for (auto* statement : {begin_, raise_, insert_, commit_, begin_, remove_, commit_}) {
      sqlite3_step(statement);
      check(sqlite3_reset(statement));
    }
  }

 private:
  static void check(int result) {
    if (result == SQLITE_OK) return;
    std::fprintf(stderr, "SQLite: %s\n", sqlite3_errstr(result));
    std::exit(1);
  }
  void run(const char* sql) { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr));
    return statement;
  }

  sqlite3* db_ = nullptr;
  sqlite3_stmt *begin_ = nullptr, *commit_ = nullptr, *raise_ = nullptr, *insert_ = nullptr,
               *remove_ = nullptr;
};

/// Alternates short slices of both until the time is up; pairs per second of each.
template <class Engine, class Bare>
std::pair<double, double> compare(std::chrono::milliseconds time, Engine engine, Bare bare) {
  double spent[2] = {0, 0}, pairs[2] = {0, 0};
  const auto slice = [&](int which, auto& pair) {
    const auto start = bench::now();
    while (bench::microseconds_since(start) < 20'000) {
      pair();
      ++pairs[which];
    }
    spent[which] += bench::microseconds_since(start);
  };
  const auto end = bench::now() + time;
  while (bench::now() < end) {
    slice(0, engine);
    slice(1, bare);
  }
  return {pairs[0] / spent[0] * 1e6, pairs[1] / spent[1] * 1e6};
}

}  // namespace

int main(int argc, char** argv) {
  const auto time = std::chrono::milliseconds(argc > 1 ? std::atoi(argv[1]) : 4000);
  const bench::TemporaryDirectory directory;
  std::printf("%-22s %14s %14s %8s\n", "commits", "engine pairs/s", "bare pairs/s", "ratio");
  for (const auto durability : {Durability::process, Durability::machine}) {
    const bool synced = durability == Durability::machine;
    const auto backend = bench::open(directory.file(synced ? "engine-full.db" : "engine-normal.db"));
    BareTransactions bare(directory.file(synced ? "bare-full.db" : "bare-normal.db"), durability);
    const auto key = *holdfast::LockKey::parse("orders:42");
    const auto [engine_rate, bare_rate] = compare(
        time,
        [&] {
          const auto id = holdfast::LockId::generate();
          bench::acquire(*backend, id, key, durability);
          bench::release(*backend, id, key, durability);
        },
        [&] { bare.pair(); });
    std::printf("%-22s %14.0f %14.0f %8.2f\n", synced ? "FULL (machine)" : "NORMAL (process)", engine_rate,
                bare_rate, engine_rate / bare_rate);
  }
}
