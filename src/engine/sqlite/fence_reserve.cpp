#include "engine/sqlite/fence_reserve.hpp"

#include <algorithm>

namespace holdfast::sqlite {
namespace {

/// Checks the clock too, as every transaction does.
FenceSequence checked_fences(Database& database) {
  database.check_clock(database.connection().integer("SELECT clock FROM meta"));
  return read_fences(database.connection());
}

}  // namespace

FenceSequence read_fences(Connection& connection) {
  const Statement select(
      connection, "SELECT fence_last, fence_reserved, fence_in_file FROM meta JOIN closing USING (one)");
  auto row = select.run();
  row.only_row("meta");
  return {.last = static_cast<std::uint64_t>(row.integer(0)),
          .reserved = static_cast<std::uint64_t>(row.integer(1)),
          .in_file = static_cast<std::uint64_t>(row.integer(2))};
}

void reserve_fences(Database& database) {
  auto& connection = database.connection();
  std::uint64_t reserved = 0;
  {
    Database::Change change(database, Durability::machine);
    reserved = with_full_reserve(checked_fences(database)).reserved;
    Statement(connection, "UPDATE meta SET fence_reserved = ?1").execute(static_cast<std::int64_t>(reserved));
    change.commit();
  }
  if (!database.copy_log()) return;
  Database::Change change(database, Durability::process);
  const auto in_file = std::max(reserved, checked_fences(database).in_file);
  Statement(connection, "UPDATE closing SET fence_in_file = ?1").execute(static_cast<std::int64_t>(in_file));
  change.commit();
}

}  // namespace holdfast::sqlite
