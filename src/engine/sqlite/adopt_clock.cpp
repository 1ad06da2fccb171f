#include "engine/sqlite/adopt_clock.hpp"

#include <optional>

#include "engine/sqlite/fences.hpp"

namespace holdfast::sqlite {
namespace {

struct Current {
  std::int64_t number = 0;
  ClockIdentity identity;
};

Current current_clock(Connection& connection) {
  const Statement select(connection,
                         "SELECT meta.clock, clocks.boot_id, clocks.time_namespace "
                         "FROM meta LEFT JOIN clocks ON clocks.clock = meta.clock");
  auto row = select.run();
  if (!row.next()) {
    throw Error(ErrorCode::Internal, "cannot use " + connection.file() +
                                         ": its meta row is missing; restore the file or move it away");
  }
  return {.number = row.integer(0),
          .identity = {.boot_id = std::string(row.bytes(1)), .time_namespace = row.integer(2)}};
}

bool was_seen(Connection& connection, const ClockIdentity& clock) {
  const Statement select(connection, "SELECT 1 FROM clocks WHERE boot_id = ?1 AND time_namespace = ?2");
  return select.run(std::string_view(clock.boot_id), clock.time_namespace).next();
}

/// Another time namespace of the same boot: the holders may well be alive, and their deadlines mean nothing
/// here. The wall clock may have jumped since, so it must not free what they hold: everything lasts for its
/// whole ttl from now on.
void prolong_locks(Connection& connection, const Clock& clock) {
  Statement(connection, "UPDATE locks SET deadline_ms = ?2 + ttl_ms, expires_at_ms = ?1 + ttl_ms")
      .execute(clock.wall_ms(), clock.boot_ms());
}

/// After a reboot, for locks that outlive one.
void restamp_locks(Connection& connection, const Clock& clock) {
  const auto wall = clock.wall_ms(), boot = clock.boot_ms();
  Statement(connection, "DELETE FROM locks WHERE expires_at_ms <= ?1").execute(wall);
  // A wall clock that was set back in between must not prolong: never more than the ttl.
  Statement(connection,
            "UPDATE locks SET deadline_ms = ?2 + min(expires_at_ms - ?1, ttl_ms), "
            "expires_at_ms = ?1 + min(expires_at_ms - ?1, ttl_ms)")
      .execute(wall, boot);
}

void skip_lost_fences(Connection& connection) {
  FenceSequence fences;
  {
    const Statement select(connection, "SELECT fence_last, fence_reserved FROM meta");
    auto row = select.run();
    if (!row.next()) return;
    fences = {.last = static_cast<std::uint64_t>(row.integer(0)),
              .reserved = static_cast<std::uint64_t>(row.integer(1))};
  }
  const auto after = without_lost_tail(fences);
  Statement(connection, "UPDATE meta SET fence_last = ?1, fence_reserved = ?2")
      .execute(static_cast<std::int64_t>(after.last), static_cast<std::int64_t>(after.reserved));
}

/// Inside a transaction.
std::int64_t adopt(Connection& connection, const Clock& clock) {
  const auto current = current_clock(connection);
  if (current.identity == clock.identity) return current.number;  // somebody else was faster
  if (was_seen(connection, clock.identity)) {
    throw Error(ErrorCode::ServiceUnavailable,
                "cannot use " + connection.file() + ": it has moved on from this clock (boot " +
                    clock.identity.boot_id + ", time namespace " +
                    std::to_string(clock.identity.time_namespace) +
                    ") to another, so two machines or time namespaces use it in turn and could not rely on "
                    "each other's leases; give each its own file");
  }
  if (current.identity.boot_id != clock.identity.boot_id) {
    connection.execute("DELETE FROM locks WHERE durable = 0");
    skip_lost_fences(connection);
    restamp_locks(connection, clock);
  } else {
    prolong_locks(connection, clock);
  }
  Statement(connection, "INSERT INTO clocks (boot_id, time_namespace, adopted_at_ms) VALUES (?1, ?2, ?3)")
      .execute(std::string_view(clock.identity.boot_id), clock.identity.time_namespace, clock.wall_ms());
  const std::int64_t number = sqlite3_last_insert_rowid(connection.handle());
  Statement(connection, "UPDATE meta SET clock = ?1").execute(number);
  return number;
}

}  // namespace

std::int64_t adopt_clock(Connection& connection, const Clock& clock) {
  if (const auto current = current_clock(connection); current.identity == clock.identity) {
    return current.number;
  }
  connection.execute("BEGIN IMMEDIATE");
  try {
    const auto number = adopt(connection, clock);
    connection.execute("COMMIT");
    return number;
  } catch (...) {
    if (connection.in_transaction()) {
      sqlite3_exec(connection.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
    throw;
  }
}

}  // namespace holdfast::sqlite
