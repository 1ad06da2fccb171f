#pragma once

#include "engine/sqlite/clock.hpp"
#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// Makes sure that the file's deadlines run on `clock`, and returns the number by which the file knows it.
///
/// A clock the file has never seen means a reboot or another time namespace: what is left of each lock is
/// restamped, once, from the wall clock, never to more than its ttl. After a reboot the locks of guards are
/// dropped, since their holders are dead, and the fences go on above the durable mark. All in one
/// transaction that is on disk when this returns.
///
/// A clock the file has seen but left means that two of them use the file in turn, and neither could trust
/// the other's deadlines: ServiceUnavailable.
///
/// Requires that commits wait for the disk (synchronous=FULL).
[[nodiscard]] std::int64_t adopt_clock(Connection& connection, const Clock& clock);

}  // namespace holdfast::sqlite
