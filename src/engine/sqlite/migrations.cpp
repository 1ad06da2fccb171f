#include "engine/sqlite/migrations.hpp"

#include <array>

#include "core/uuid.hpp"
#include "embedded/1_locks.sql.hpp"
#include "embedded/2_records.sql.hpp"
#include "embedded/3_closing.sql.hpp"
#include "embedded/4_holders.sql.hpp"
#include "embedded/5_queues.sql.hpp"
#include "engine/sqlite/fences.hpp"
#include "os/random.hpp"

namespace holdfast::sqlite {
namespace {

void create(Connection& connection) {
  connection.execute(std::string(locks_sql).c_str());
  std::array<unsigned char, 16> bytes{};
  os::random_bytes(bytes);
  const std::string authority = core::uuid_v4(bytes);
  const Statement insert(
      connection,
      "INSERT INTO meta (one, clock, fence_last, fence_reserved, synced_commits, authority) "
      "VALUES (1, 0, 0, 0, 0, ?1)");
  insert.execute(std::string_view(authority));
}

void add_records(Connection& connection) {
  connection.execute(std::string(records_sql).c_str());
}

void add_closing(Connection& connection) {
  connection.execute(std::string(closing_sql).c_str());
  // The authority of a new file and its first block of fences reach the disk together. For an older file, the
  // reserve may be in the log only: the first grant copies the log.
  const bool is_new = connection.integer("PRAGMA user_version") == 0;
  const auto block = static_cast<std::int64_t>(is_new ? fence_block : 0);
  if (is_new) Statement(connection, "UPDATE meta SET fence_reserved = ?1").execute(block);
  Statement(connection, "INSERT INTO closing (one, state, fence_in_file) VALUES (1, ?1, ?2)")
      .execute(open_or_killed, block);
}

void add_holders(Connection& connection) {
  connection.execute(std::string(holders_sql).c_str());
}

void add_queues(Connection& connection) {
  connection.execute(std::string(queues_sql).c_str());
}

constexpr auto all = std::to_array<Migration>({{.version = 1, .apply = create},
                                               {.version = 2, .apply = add_records},
                                               {.version = 3, .apply = add_closing},
                                               {.version = 4, .apply = add_holders},
                                               {.version = 5, .apply = add_queues}});

Error refusal(const Connection& connection, const std::string& why_and_what_to_do) {
  return {ErrorCode::ServiceUnavailable, "cannot use " + connection.file() + ": " + why_and_what_to_do};
}

/// A transaction that is rolled back unless committed.
class Transaction {
 public:
  Transaction(Connection& connection, const char* begin) : connection_(connection) {
    connection_.execute(begin);
  }
  ~Transaction() {
    if (connection_.in_transaction()) {
      sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() { connection_.execute("COMMIT"); }

 private:
  Connection& connection_;
};

/// The version of a Holdfast file; 0 for an empty one. Throws for another program's file. Requires a
/// transaction: otherwise a file that is created meanwhile has no application id in the first query and
/// tables in the next.
std::int64_t version_of(Connection& connection, std::int64_t newest) {
  const auto owner = connection.integer("PRAGMA application_id");
  const auto objects = connection.integer("SELECT count(*) FROM sqlite_schema");
  if (owner == 0 && objects == 0) return 0;
  if (owner != application_id) {
    throw refusal(connection, "it is a database of another program; use another file");
  }
  const auto version = connection.integer("PRAGMA user_version");
  if (version < 1 || version > newest) {
    throw refusal(connection, "its format is version " + std::to_string(version) +
                                  ", but this program supports versions 1 to " + std::to_string(newest) +
                                  "; upgrade holdfast, or use another file");
  }
  return version;
}

}  // namespace

std::span<const Migration> migrations() {
  return all;
}

void refuse_others(Connection& connection, std::span<const Migration> steps) {
  const Transaction reading(connection, "BEGIN");
  static_cast<void>(version_of(connection, steps.back().version));
}

bool migrate(Connection& connection, std::span<const Migration> steps) {
  const auto newest = steps.back().version;
  {
    const Transaction reading(connection, "BEGIN");
    if (version_of(connection, newest) == newest) return false;
  }
  connection.execute("PRAGMA synchronous=FULL");
  Transaction transaction(connection, "BEGIN EXCLUSIVE");
  const auto version = version_of(connection, newest);  // another process may have migrated it first
  for (const auto& step : steps) {
    if (step.version > version) step.apply(connection);
  }
  connection.execute(("PRAGMA application_id=" + std::to_string(application_id)).c_str());
  connection.execute(("PRAGMA user_version=" + std::to_string(newest)).c_str());
  transaction.commit();
  return true;
}

}  // namespace holdfast::sqlite
