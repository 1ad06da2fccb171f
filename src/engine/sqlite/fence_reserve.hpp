#pragma once

#include "engine/sqlite/database.hpp"
#include "engine/sqlite/fences.hpp"

namespace holdfast::sqlite {

/// The file's sequence. Requires a transaction.
[[nodiscard]] FenceSequence read_fences(Connection& connection);

/// Reserves more fences: a fence may be granted only after its reserve is in the database file itself, on
/// disk. Requires that there is no transaction. If another user prevents the copy of the log, the reserve may
/// not be usable yet.
void reserve_fences(Database& database);

}  // namespace holdfast::sqlite
