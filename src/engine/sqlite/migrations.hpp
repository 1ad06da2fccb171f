#pragma once

#include <span>

#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// PRAGMA application_id of Holdfast's files: "HFst".
inline constexpr std::int64_t application_id = 0x48467374;

/// Migrates a file from the previous version to `version`. Runs inside a transaction.
struct Migration {
  std::int64_t version;
  void (*apply)(Connection&);
};

/// All migrations, from the empty file on, in order.
[[nodiscard]] std::span<const Migration> migrations();

/// Throws ServiceUnavailable if the file is another program's or newer. Only reads.
void refuse_others(Connection& connection, std::span<const Migration> steps);

/// Brings the file to the last version of `steps`, in one transaction that is on disk when this returns. Does
/// nothing to a file of that version. Any number of processes may do this at once. Throws ServiceUnavailable,
/// and changes nothing, if the file is not a database, belongs to another program, or is newer. True if it
/// changed the file.
bool migrate(Connection& connection, std::span<const Migration> steps);

}  // namespace holdfast::sqlite
