#include "engine/sqlite/file_clock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "engine/sqlite/fences.hpp"
#include "os/errno_error.hpp"

namespace holdfast::sqlite {
namespace {

bool was_seen(Connection& connection, const ClockIdentity& clock) {
  const Statement select(connection, "SELECT 1 FROM clocks WHERE boot_id = ?1 AND time_namespace = ?2");
  return select.run(std::string_view(clock.boot_id), clock.time_namespace).next();
}

/// Every lock lasts for its whole ttl from now on: the holders may be alive, their deadlines are meaningless
/// on this clock, and the wall clock may have jumped since.
void prolong_locks(Connection& connection, const Clock& clock) {
  Statement(connection, "UPDATE locks SET deadline_ms = ?2 + ttl_ms, expires_at_ms = ?1 + ttl_ms")
      .execute(clock.wall_ms(), clock.boot_ms());
}

/// The holders may be alive, and it is unknown whether they acquired their locks under this kernel. If they
/// did, the boot clock gives the rest of a lease; if not, the wall clock does, unless it has jumped. So a
/// lock keeps its deadline if the boot clock is within the lease and the wall clock agrees or has it expired.
/// A lock lasts for its whole ttl if only the wall clock leaves a rest, or both leave different ones. A lock
/// is gone if neither leaves a rest.
void keep_locks(Connection& connection, const Clock& clock) {
  const std::string keeps_deadline =
      "(?2 >= deadline_ms - ttl_ms AND ?2 < deadline_ms AND"
      " (expires_at_ms <= ?1 OR abs((expires_at_ms - ?1) - (deadline_ms - ?2)) <= 1000))";
  const auto wall = clock.wall_ms(), boot = clock.boot_ms();
  Statement(connection, "DELETE FROM locks WHERE expires_at_ms <= ?1 AND NOT " + keeps_deadline)
      .execute(wall, boot);
  Statement(connection, "UPDATE locks SET deadline_ms = CASE WHEN " + keeps_deadline +
                            " THEN deadline_ms ELSE ?2 + ttl_ms END, expires_at_ms = ?1 + CASE WHEN " +
                            keeps_deadline + " THEN deadline_ms - ?2 ELSE ttl_ms END")
      .execute(wall, boot);
}

/// After a reboot. The locks of guards are gone; durable locks keep the rest of their lease by the wall
/// clock.
void restamp_locks(Connection& connection, const Clock& clock) {
  const auto wall = clock.wall_ms(), boot = clock.boot_ms();
  Statement(connection, "DELETE FROM locks WHERE durable = 0 OR expires_at_ms <= ?1").execute(wall);
  // A wall clock that was set back in between must not extend a lease: never more than the ttl.
  Statement(connection,
            "UPDATE locks SET deadline_ms = ?2 + min(expires_at_ms - ?1, ttl_ms), "
            "expires_at_ms = ?1 + min(expires_at_ms - ?1, ttl_ms)")
      .execute(wall, boot);
}

// The leases of queued records follow the same rules as locks. One that is gone has the deadline 0: the next
// claim finds that it has expired, and counts a death.

/// `deadline`: the new one, as SQL of ?1 (the wall clock) and ?2 (the boot clock).
void move_leases(Connection& connection, const Clock& clock, const std::string& deadline) {
  Statement(connection, "UPDATE queued SET lease_deadline_ms = " + deadline +
                            ", lease_expires_at_ms = CASE WHEN " + deadline +
                            " = 0 THEN lease_expires_at_ms ELSE ?1 + " + deadline + " - ?2 END" +
                            ", attempt_deadline_ms = CASE WHEN attempt_deadline_ms = 0 THEN 0 ELSE " +
                            deadline + " + attempt_deadline_ms - lease_deadline_ms END WHERE place = 2")
      .execute(clock.wall_ms(), clock.boot_ms());
}
/// See prolong_locks.
void prolong_leases(Connection& connection, const Clock& clock) {
  move_leases(connection, clock, "(?2 + lease_ms)");
}
/// See keep_locks.
void keep_leases(Connection& connection, const Clock& clock) {
  move_leases(connection, clock,
              "(CASE WHEN ?2 >= lease_deadline_ms - lease_ms AND ?2 < lease_deadline_ms AND"
              " (lease_expires_at_ms <= ?1 OR"
              " abs((lease_expires_at_ms - ?1) - (lease_deadline_ms - ?2)) <= 1000)"
              " THEN lease_deadline_ms WHEN lease_expires_at_ms <= ?1 THEN 0 ELSE ?2 + lease_ms END)");
}
/// After a reboot all workers are dead.
void end_leases(Connection& connection) {
  connection.execute("UPDATE queued SET lease_deadline_ms = 0 WHERE place = 2");
}

std::int64_t enter(Connection& connection, const Clock& clock) {
  const auto& identity = clock.identity;
  // A clock that returns gets another number: a process that used the file under it before must notice the
  // change.
  Statement(connection,
            "INSERT OR REPLACE INTO clocks (boot_id, time_namespace, adopted_at_ms, is_kernels) "
            "VALUES (?1, ?2, ?3, ?4)")
      .execute(std::string_view(identity.boot_id), identity.time_namespace, clock.wall_ms(),
               std::int64_t{identity.is_kernels});
  const std::int64_t number = sqlite3_last_insert_rowid(connection.handle());
  Statement(connection, "UPDATE meta SET clock = ?1").execute(number);
  // A container gets a new boot id each time it starts: its old ids are meaningless.
  Statement(connection, "DELETE FROM clocks WHERE is_kernels = 0 AND clock <> ?1").execute(number);
  return number;
}

/// An offset far beyond the end of any log.
struct flock one_byte(short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t{1} << 60;
  lock.l_len = 1;
  return lock;
}

}  // namespace

FileClock current_clock(Connection& connection) {
  const Statement select(connection,
                         "SELECT meta.clock, clocks.boot_id, clocks.time_namespace, clocks.is_kernels "
                         "FROM meta LEFT JOIN clocks ON clocks.clock = meta.clock");
  auto row = select.run();
  row.only_row("meta");
  return {.number = row.integer(0),
          .boot_id = std::string(row.bytes(1)),
          .time_namespace = row.integer(2),
          .is_kernels = row.is_null(3) ? std::nullopt : std::optional(row.integer(3) != 0)};
}

ClockChange change_of(const FileClock& current, const ClockIdentity& ours, bool seen) {
  if (current.number == 0) return ClockChange::first;
  if (current.boot_id == ours.boot_id) return ClockChange::time_namespace;
  if (!ours.is_kernels || !current.is_kernels.value_or(false)) return ClockChange::container;
  return seen ? ClockChange::two_machines : ClockChange::reboot;
}

bool may_be_ours(const FileClock& current, const ClockIdentity& ours) {
  if (current.number == 0 || current.boot_id == ours.boot_id) return false;
  return !ours.is_kernels || !current.is_kernels.value_or(true);
}

void refuse_two_machines(Connection& connection, const ClockIdentity& ours) {
  auto current = current_clock(connection);
  bool seen = was_seen(connection, ours);
  // Outside of a transaction another process of ours may adopt our clock between the two readings.
  for (auto now = current_clock(connection); now.number != current.number; now = current_clock(connection)) {
    current = now;
    seen = was_seen(connection, ours);
  }
  if (current.is(ours) || change_of(current, ours, seen) != ClockChange::two_machines) return;
  throw Error(ErrorCode::ServiceUnavailable,
              "cannot use " + connection.file() + ": its leases have moved from this clock (boot " +
                  ours.boot_id + ") to the clock of another machine (boot " + current.boot_id +
                  "). Two machines use it in turn, and neither can rely on the other's leases. Use one file "
                  "per machine");
}

std::int64_t adopt_clock(Connection& connection, const Clock& clock) {
  const auto current = current_clock(connection);
  if (current.is(clock.identity)) return current.number;
  refuse_two_machines(connection, clock.identity);
  switch (change_of(current, clock.identity, false)) {
    case ClockChange::first:
    case ClockChange::two_machines:
      break;
    case ClockChange::reboot:
      skip_lost_fences(connection);
      restamp_locks(connection, clock);
      end_leases(connection);
      break;
    case ClockChange::container:
      skip_lost_fences(connection);
      keep_locks(connection, clock);
      keep_leases(connection, clock);
      break;
    case ClockChange::time_namespace:
      prolong_locks(connection, clock);
      prolong_leases(connection, clock);
      break;
  }
  return enter(connection, clock);
}

ClockLock::ClockLock(const std::string& log_file)
    : file_(log_file), fd_(::open(log_file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  if (fd_ < 0) throw os::errno_error("cannot open " + file_);
}

ClockLock::~ClockLock() {
  ::close(fd_);
}

bool ClockLock::set(short type) const {
  const auto lock = one_byte(type);
  if (::fcntl(fd_, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw os::errno_error("cannot lock " + file_);
}

bool ClockLock::try_lock_shared() {
  return set(F_RDLCK);
}

bool ClockLock::try_lock() {
  return set(F_WRLCK);
}

void ClockLock::unlock() noexcept {
  const auto lock = one_byte(F_UNLCK);
  ::fcntl(fd_, F_OFD_SETLK, &lock);
}

ClockLock::Others ClockLock::others() const {
  auto lock = one_byte(F_WRLCK);
  if (::fcntl(fd_, F_OFD_GETLK, &lock) != 0) throw os::errno_error("cannot inspect the locks of " + file_);
  if (lock.l_type == F_UNLCK) return Others::none;
  return lock.l_type == F_RDLCK ? Others::shared : Others::exclusive;
}

}  // namespace holdfast::sqlite
