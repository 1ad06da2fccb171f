#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/sqlite/clock.hpp"
#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// The clock that a file's deadlines run on.
struct FileClock {
  std::int64_t number = 0;  ///< 0: none yet
  std::string boot_id;
  std::int64_t time_namespace = 0;
  std::optional<bool> is_kernels;  ///< as in ClockIdentity; empty if an older build wrote it

  [[nodiscard]] bool is(const ClockIdentity& clock) const {
    return number != 0 && boot_id == clock.boot_id && time_namespace == clock.time_namespace;
  }
};

/// Throws Internal if the file has no valid clock.
[[nodiscard]] FileClock current_clock(Connection& connection);

/// Why a file's clock is not ours.
enum class ClockChange : std::uint8_t {
  first,           ///< the file has had none
  reboot,          ///< of the kernel: every process that held a lock is dead
  container,       ///< at least one boot id is a container's: holders may be alive, the kernel may be another
  time_namespace,  ///< an older build used the file in its own time namespace: holders may be alive
  two_machines,    ///< both kernels are alive
};
/// Pure. `seen`: whether the file was used under our clock before.
[[nodiscard]] ClockChange change_of(const FileClock& current, const ClockIdentity& ours, bool seen);

/// Whether a process on this kernel that uses the file's clock proves that it is our clock under another boot
/// id. False if both ids are kernels' own: then an unknown kind of file system shows us another machine's
/// locks.
[[nodiscard]] bool may_be_ours(const FileClock& current, const ClockIdentity& ours);

/// Throws ServiceUnavailable if two machines use the file in turn: neither can rely on the other's deadlines.
void refuse_two_machines(Connection& connection, const ClockIdentity& ours);

/// Makes the file's deadlines run on `clock`, and returns that clock's number in the file. Does nothing if
/// they already do. Requires a transaction, and that no process uses the file under another clock.
///
/// After a reboot the locks of guards are dropped, and the rest of the others is restamped from the wall
/// clock, never to more than the ttl; the leases of queued records have expired. If holders may be alive,
/// each lock gets its whole ttl, unless it has expired. If the kernel may be another, the fences continue
/// above the durable mark.
[[nodiscard]] std::int64_t adopt_clock(Connection& connection, const Clock& clock);

/// A lock that processes of this kernel share while they use a file under its present clock. A process
/// acquires it exclusively to adopt another clock.
///
/// It is a lock on one byte of the -wal file, which exists as long as the database is open anywhere and on
/// which SQLite itself holds no locks. It belongs to the open file (F_OFD_SETLK): two connections of one
/// process have one each, and closing the connection releases it. It survives in a forked child that does not
/// exec: the file then only appears in use on this kernel for longer.
class ClockLock {
 public:
  /// Throws holdfast::Error if the file cannot be opened.
  explicit ClockLock(const std::string& log_file);
  ~ClockLock();
  ClockLock(const ClockLock&) = delete;
  ClockLock& operator=(const ClockLock&) = delete;

  /// False while another connection has it exclusively.
  [[nodiscard]] bool try_lock_shared();
  /// False while another connection has it.
  [[nodiscard]] bool try_lock();
  void unlock() noexcept;

  /// How other connections have it.
  enum class Others : std::uint8_t { none, shared, exclusive };
  [[nodiscard]] Others others() const;

 private:
  [[nodiscard]] bool set(short type) const;

  std::string file_;
  int fd_;
};

}  // namespace holdfast::sqlite
