#include "engine/sqlite/fences.hpp"

#include <string>

namespace holdfast::sqlite {
namespace {

/// SQLite's own open file: closing another descriptor of the database would drop SQLite's locks.
sqlite3_file* open_file_of(const Connection& connection, int which = SQLITE_FCNTL_FILE_POINTER) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(connection.handle(), "main", which, static_cast<void*>(&file));
  if (file == nullptr || file->pMethods == nullptr) throw damaged(connection, "SQLite does not have it open");
  return file;
}

void set_state(Connection& connection, std::string_view state) {
  Statement(connection, "UPDATE closing SET state = ?1").execute(state);
}

/// Overwrites the state in the file, on the page of its one row. Requires an empty log: then SQLite reads the
/// file itself.
void overwrite_state_in_place(Connection& connection) {
  auto* const file = open_file_of(connection);
  const auto bytes_per_page = connection.integer("PRAGMA page_size");
  const auto number = connection.integer("SELECT rootpage FROM sqlite_schema WHERE name = 'closing'");
  const auto start = (number - 1) * bytes_per_page;
  std::string page(static_cast<std::size_t>(bytes_per_page), '\0');
  if (const int result = file->pMethods->xRead(file, page.data(), static_cast<int>(bytes_per_page), start);
      result != SQLITE_OK) {
    throw connection.error(result);
  }
  // Overwrites every copy: stale bytes on the page are ignored by SQLite.
  for (auto at = page.find(closed_cleanly); at != std::string::npos; at = page.find(closed_cleanly, at + 1)) {
    const int result =
        file->pMethods->xWrite(file, open_or_killed.data(), static_cast<int>(open_or_killed.size()),
                               start + static_cast<std::int64_t>(at));
    if (result != SQLITE_OK) throw connection.error(result);
  }
}

}  // namespace

bool was_closed_cleanly(Connection& connection) {
  const Statement select(connection, "SELECT state FROM closing");
  auto row = select.run();
  row.only_row("closing");
  return row.bytes(0) == closed_cleanly;
}

bool log_is_empty(const Connection& connection) {
  auto* const log = open_file_of(connection, SQLITE_FCNTL_JOURNAL_POINTER);
  sqlite3_int64 bytes = 0;
  if (const int result = log->pMethods->xFileSize(log, &bytes); result != SQLITE_OK)
    throw connection.error(result);
  return bytes == 0;
}

void skip_lost_fences(Connection& connection) {
  FenceSequence fences;
  {
    const Statement select(connection, "SELECT fence_last, fence_reserved FROM meta");
    auto row = select.run();
    row.only_row("meta");
    fences = {.last = static_cast<std::uint64_t>(row.integer(0)),
              .reserved = static_cast<std::uint64_t>(row.integer(1))};
  }
  const auto after = without_lost_tail(fences);
  Statement(connection, "UPDATE meta SET fence_last = ?1, fence_reserved = ?2")
      .execute(static_cast<std::int64_t>(after.last), static_cast<std::int64_t>(after.reserved));
}

void mark_in_use(Connection& connection) {
  if (log_is_empty(connection)) overwrite_state_in_place(connection);
  set_state(connection, open_or_killed);
}

bool mark_closed_cleanly(Connection& connection, const std::function<bool()>& is_unmoved) noexcept {
  try {
    // It is already marked; or the log of a file in use is empty, so it was removed.
    if (was_closed_cleanly(connection) || log_is_empty(connection)) return true;
    // SQLite itself determines in this way whether this is the last connection: no other can be opened in
    // between.
    auto* const file = open_file_of(connection);
    if (file->pMethods->xLock(file, SQLITE_LOCK_EXCLUSIVE) != SQLITE_OK) return false;
    if (!is_unmoved()) return false;  // under the lock: no other process can open the file now
    set_state(connection, closed_cleanly);
  } catch (const Error&) {
    // Then the file stays marked as in use; at worst the next user leaves a gap in the fences.
  }
  return true;
}

}  // namespace holdfast::sqlite
