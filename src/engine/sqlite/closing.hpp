#pragma once

#include <string_view>

#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// Whether the last user closed the file, so that everything in the log was copied into it and the log
/// deleted. Why that must be known: fences that were granted since the last copy are in the log alone, and a
/// log can be removed by hand while nobody runs. docs/internals/sqlite.md has the argument.

/// The states a file is in. Of one length, since the second is written over the first in place.
inline constexpr std::string_view closed_cleanly = "closed cleanly";
inline constexpr std::string_view open_or_killed = "open or killed";
static_assert(closed_cleanly.size() == open_or_killed.size());

[[nodiscard]] bool was_closed_cleanly(Connection& connection);

/// Whether the log holds nothing. Inside a transaction that changes the file and has changed nothing yet:
/// then nothing was written to it since the last user closed the file, or since it was removed.
[[nodiscard]] bool log_is_empty(const Connection& connection);

/// Lets the fences go on above everything that may have been granted. Inside a transaction.
void skip_lost_fences(Connection& connection);

/// For the first change after a clean close, before its commit: the file itself says from now on that it is
/// in use, without waiting for the disk. That is enough: what is written outlives every process, and after a
/// power cut the fences go on from the reserve anyway.
void mark_in_use(Connection& connection);

/// To be called just before the connection is closed. If no other is open, in any process, the file will say
/// that it was closed cleanly once SQLite, closing it, has copied the log. Costs no wait for the disk of its
/// own. Requires that commits do not wait for the disk (synchronous=NORMAL).
void mark_closed_cleanly(Connection& connection) noexcept;

}  // namespace holdfast::sqlite
