#include "engine/sqlite/lock_table.hpp"

#include <string>

namespace holdfast::sqlite {
namespace {

constexpr int row_columns = 9;
constexpr const char* select_view =
    "SELECT meta.clock, meta.fence_last, meta.fence_reserved, closing.fence_in_file,"
    " k.key, k.id, k.fence, k.deadline_ms, k.ttl_ms, k.acquired_at_ms, k.expires_at_ms, k.durable, k.holder,"
    " i.key, i.id, i.fence, i.deadline_ms, i.ttl_ms, i.acquired_at_ms, i.expires_at_ms, i.durable, i.holder "
    "FROM meta JOIN closing LEFT JOIN locks k ON k.key = ?1 LEFT JOIN locks i ON i.id = ?2";
constexpr const char* select_by_key =
    "SELECT meta.clock, key, id, fence, deadline_ms, ttl_ms, acquired_at_ms, expires_at_ms, durable, holder "
    "FROM meta LEFT JOIN locks ON key = ?1";
constexpr const char* select_by_id =
    "SELECT meta.clock, key, id, fence, deadline_ms, ttl_ms, acquired_at_ms, expires_at_ms, durable, holder "
    "FROM meta LEFT JOIN locks ON id = ?1";
constexpr const char* select_page =
    "SELECT key, id, fence, deadline_ms, ttl_ms, acquired_at_ms, expires_at_ms, durable, holder "
    "FROM locks WHERE key > ?1 AND deadline_ms > ?2 ORDER BY key LIMIT ?3";
constexpr const char* insert_row =
    "INSERT INTO locks (key, id, fence, deadline_ms, ttl_ms, acquired_at_ms, expires_at_ms, durable, holder) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
constexpr const char* update_row =
    "UPDATE locks SET deadline_ms = ?2, ttl_ms = ?3, expires_at_ms = ?4, durable = ?5 WHERE key = ?1";
constexpr const char* update_holder = "UPDATE locks SET holder = ?2 WHERE key = ?1";
constexpr const char* delete_expired_locks =
    "DELETE FROM locks WHERE deadline_ms <= ?2 AND key IN "
    "(SELECT key FROM (SELECT key FROM locks WHERE id > ?1 ORDER BY id LIMIT ?3)"
    " UNION ALL SELECT key FROM (SELECT key FROM locks ORDER BY id LIMIT ?3))";

/// The row whose columns begin at `first`; empty if the join found none.
std::optional<LockRow> read_row(const Connection& connection, const Statement::Run& run, int first) {
  if (run.is_null(first)) return std::nullopt;
  auto key = LockKey::stored(run.bytes(first));
  auto id = LockId::parse(run.bytes(first + 1));
  auto fence = Fence::of(static_cast<std::uint64_t>(run.integer(first + 2)));
  if (!key || !id || !fence) throw damaged(connection, "invalid row in the locks table");
  return LockRow{.record = {.key = *std::move(key),
                            .id = *id,
                            .fence = *fence,
                            .acquired_at = run.time(first + 5),
                            .expires_at = run.time(first + 6),
                            .holder = LockHolder::shortened(run.bytes(first + 8))},
                 .deadline_ms = run.integer(first + 3),
                 .ttl_ms = run.integer(first + 4),
                 .durable = run.integer(first + 7) != 0};
}

FenceSequence read_fences(const Connection& connection, const Statement::Run& run, int first) {
  const auto last = run.integer(first), reserved = run.integer(first + 1), in_file = run.integer(first + 2);
  if (last < 0 || reserved < 0 || in_file < 0) throw damaged(connection, "its fence counter is negative");
  return {.last = static_cast<std::uint64_t>(last),
          .reserved = static_cast<std::uint64_t>(reserved),
          .in_file = static_cast<std::uint64_t>(in_file)};
}

Statement::Blob blob(const LockKey& key) {
  return {key.str()};
}

std::optional<Statement::Blob> blob(const LockHolder* holder) {
  return holder != nullptr ? std::optional(Statement::Blob{holder->str()}) : std::nullopt;
}

}  // namespace

LockTable::LockTable(Connection& connection)
    : connection_(connection),
      view_(connection, select_view),
      find_key_(connection, select_by_key),
      find_id_(connection, select_by_id),
      page_(connection, select_page),
      clock_(connection, "SELECT clock FROM meta"),
      insert_(connection, insert_row),
      restamp_(connection, update_row),
      set_holder_(connection, update_holder),
      remove_(connection, "DELETE FROM locks WHERE key = ?1"),
      remove_expired_(connection, delete_expired_locks),
      set_last_fence_(connection, "UPDATE meta SET fence_last = ?1") {}

LockTable::View LockTable::view(const LockKey& key, const LockId& id) const {
  auto run = view_.run(blob(key), id.str());
  run.only_row("meta");
  return {.clock = run.integer(0),
          .fences = read_fences(connection_, run, 1),
          .at_key = read_row(connection_, run, 4),
          .of_id = read_row(connection_, run, 4 + row_columns)};
}

LockTable::Found LockTable::find(const LockKey& key) const {
  auto run = find_key_.run(blob(key));
  run.only_row("meta");
  return {.clock = run.integer(0), .row = read_row(connection_, run, 1)};
}

LockTable::Found LockTable::find(const LockId& id) const {
  auto run = find_id_.run(id.str());
  run.only_row("meta");
  return {.clock = run.integer(0), .row = read_row(connection_, run, 1)};
}

std::vector<LockRecord> LockTable::page(std::string_view after, std::int64_t now_ms,
                                        std::size_t limit) const {
  std::vector<LockRecord> records;
  for (auto run = page_.run(Statement::Blob{after}, now_ms, static_cast<std::int64_t>(limit)); run.next();) {
    records.push_back(read_row(connection_, run, 0).value().record);
  }
  return records;
}

std::int64_t LockTable::clock() const {
  auto run = clock_.run();
  run.only_row("meta");
  return run.integer(0);
}

void LockTable::insert(const LockRow& row, const LockHolder* holder) const {
  insert_.execute(blob(row.record.key), row.record.id.str(),
                  static_cast<std::int64_t>(row.record.fence.value()), row.deadline_ms, row.ttl_ms,
                  row.record.acquired_at, row.record.expires_at, std::int64_t{row.durable}, blob(holder));
}

void LockTable::restamp(const LockRow& row) const {
  restamp_.execute(blob(row.record.key), row.deadline_ms, row.ttl_ms, row.record.expires_at,
                   std::int64_t{row.durable});
}

void LockTable::set_holder(const LockKey& key, const LockHolder* holder) const {
  set_holder_.execute(blob(key), blob(holder));
}

void LockTable::remove(const LockKey& key) const {
  remove_.execute(blob(key));
}

void LockTable::remove_expired(const LockId& after, std::int64_t now_ms, std::size_t rows) const {
  remove_expired_.execute(after.str(), now_ms, static_cast<std::int64_t>(rows));
}

void LockTable::set_last_fence(Fence fence) const {
  set_last_fence_.execute(static_cast<std::int64_t>(fence.value()));
}

}  // namespace holdfast::sqlite
