// The least that acquire and release in a file can cost: the transactions of the SQLite engine, without the
// engine.

#pragma once

#include <sqlite3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <holdfast/lock_backend.hpp>

namespace bench {

class BareTransactions {
 public:
  BareTransactions(const std::filesystem::path& file, holdfast::Durability durability) {
    check(sqlite3_open(file.c_str(), &db_));
    run("PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=8192;");
    run(durability == holdfast::Durability::machine ? "PRAGMA synchronous=FULL"
                                                    : "PRAGMA synchronous=NORMAL");
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

}  // namespace bench
