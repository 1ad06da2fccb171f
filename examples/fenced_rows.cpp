// Rows of a database that refuse a late write: the highest fence is a column, and each UPDATE compares it.
// Here with SQLite's C interface; docs/guide/fencing.md has the same statement for PostgreSQL.
#include <sqlite3.h>

#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <memory>
#include <stdexcept>

using namespace std::chrono_literals;

namespace {

class Accounts {
 public:
  Accounts() {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open(":memory:", &opened);
    database_.reset(opened);
    check(result);
    check(sqlite3_exec(opened,
                       "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL,"
                       " fence INTEGER NOT NULL DEFAULT 0);"
                       "INSERT INTO accounts (id, balance) VALUES (7, 0)",
                       nullptr, nullptr, nullptr));
  }

  /// False if a holder with a higher fence has written the row: then the caller no longer has the lock.
  [[nodiscard]] bool set_balance(std::int64_t id, std::int64_t balance, holdfast::Fence fence) {
    const auto update = prepare("UPDATE accounts SET balance = ?2, fence = ?3 WHERE id = ?1 AND fence <= ?3");
    check(sqlite3_bind_int64(update.get(), 1, id));
    check(sqlite3_bind_int64(update.get(), 2, balance));
    check(sqlite3_bind_int64(update.get(), 3, static_cast<std::int64_t>(fence.value())));
    if (sqlite3_step(update.get()) != SQLITE_DONE) fail();
    return sqlite3_changes(database_.get()) == 1;
  }

  [[nodiscard]] std::int64_t balance(std::int64_t id) {
    const auto select = prepare("SELECT balance FROM accounts WHERE id = ?1");
    check(sqlite3_bind_int64(select.get(), 1, id));
    if (sqlite3_step(select.get()) != SQLITE_ROW) fail();
    return sqlite3_column_int64(select.get(), 0);
  }

 private:
  using Statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

  Statement prepare(const char* sql) {
    sqlite3_stmt* prepared = nullptr;
    check(sqlite3_prepare_v2(database_.get(), sql, -1, &prepared, nullptr));
    return {prepared, &sqlite3_finalize};
  }
  void check(int result) {
    if (result != SQLITE_OK) fail();
  }
  [[noreturn]] void fail() { throw std::runtime_error(sqlite3_errmsg(database_.get())); }

  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database_{nullptr, &sqlite3_close};
};

}  // namespace

int main() try {
  auto hf = holdfast::open("memory:");
  Accounts accounts;

  // A holder that reads, and then hangs for longer than its lease: no renewal stands for a paused process.
  auto slow = hf.locks().lock("account:7", {.ttl = 100ms, .auto_renew = false});
  const auto read_by_slow = accounts.balance(7);

  // The next holder reads and writes.
  auto quick = hf.locks().lock("account:7", {.ttl = 30s, .wait = 10s});
  if (!accounts.set_balance(7, accounts.balance(7) + 100, quick.fence())) return 1;
  if (!accounts.set_balance(7, accounts.balance(7) + 20, quick.fence())) return 1;  // again, same fence

  // The first one resumes. Without the fence, this write would undo the other two.
  const bool accepted = accounts.set_balance(7, read_by_slow + 1, slow.fence());
  std::cout << "the write with fence " << slow.fence() << (accepted ? " was accepted!\n" : " was refused\n")
            << "balance " << accounts.balance(7) << '\n';
  return !accepted && accounts.balance(7) == 120 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
