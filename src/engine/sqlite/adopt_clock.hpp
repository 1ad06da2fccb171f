#pragma once

#include <optional>

#include "engine/sqlite/clock.hpp"
#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// The clock that a file's deadlines run on.
struct FileClock {
  std::int64_t number = 0;  ///< 0: none yet
  std::string boot_id;
  std::int64_t time_namespace = 0;
  std::optional<bool> is_kernels;  ///< as in ClockIdentity; nothing if an older build wrote it

  [[nodiscard]] bool is(const ClockIdentity& clock) const {
    return number != 0 && boot_id == clock.boot_id && time_namespace == clock.time_namespace;
  }
};

/// Throws Internal if the file does not say.
[[nodiscard]] FileClock current_clock(Connection& connection);

/// What it means that a file's clock is not ours.
enum class ClockChange : std::uint8_t {
  first,      ///< the file has had none
  reboot,     ///< of the kernel: every process that held a lock is dead
  container,  ///< at least one boot id is a container's own: holders may be alive, the kernel may be another
  time_namespace,  ///< an older build used the file in a time namespace of its own: holders may be alive
  two_machines,    ///< both kernels are alive
};
/// Pure. `seen`: whether the file was used under our clock before.
[[nodiscard]] ClockChange change_of(const FileClock& current, const ClockIdentity& ours, bool seen);

/// Whether a process on this kernel that works under the file's clock shows that it is our clock under
/// another name. Not if both names are kernels' own: then a file system that we know nothing of shows us
/// another machine's locks.
[[nodiscard]] bool may_be_ours(const FileClock& current, const ClockIdentity& ours);

/// Throws ServiceUnavailable if two machines use the file in turn: neither can rely on the other's deadlines.
void refuse_two_machines(Connection& connection, const ClockIdentity& ours);

/// Makes the file's deadlines run on `clock`, and returns the number by which the file knows it. Does nothing
/// if they do. Inside a transaction, while no process works on the file under another clock.
///
/// After a reboot the locks of guards are dropped and what is left of the others is restamped from the wall
/// clock, never to more than the ttl. Where holders may be alive, each lock gets its whole ttl, unless it has
/// expired. Where the kernel may be another, the fences go on above the durable mark.
[[nodiscard]] std::int64_t adopt_clock(Connection& connection, const Clock& clock);

}  // namespace holdfast::sqlite
