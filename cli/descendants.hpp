#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "survivors.hpp"

namespace holdfast::cli {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  unsigned long long started = 0;  ///< clock ticks since boot: with the pid, an identity
  bool zombie = false;
  /// A child of ours that /proc does not show. Until it is reaped its pid is an identity.
  bool hidden = false;
};

/// Every process of the machine that /proc shows us. Nothing if it could not be read to its end (it is not
/// mounted, we have no descriptor left): then nobody knows who is there.
[[nodiscard]] std::optional<std::vector<Process>> all_processes();

/// The children of this process, those included that /proc hides.
[[nodiscard]] std::vector<Process> own_children();

struct Signalled {
  std::size_t living = 0;        ///< descendants seen alive that got the signal or have just died
  std::size_t beyond_reach = 0;  ///< living descendants that we may not signal (they run as another user)
  /// Those of `beyond_reach` that /proc hides (hidepid). They may have descendants that nothing shows, so
  /// both are the least that there can be.
  std::size_t hidden = 0;
  bool all_seen = false;  ///< if not, the numbers say nothing

  [[nodiscard]] bool all_beyond_reach() const noexcept { return all_seen && living == 0 && beyond_reach > 0; }
};

/// Sends `signal` (0 only looks) to all living descendants of this process. Children whose parents have died
/// are among them as long as it is a subreaper. `spared`: processes that, with their own descendants, do not
/// count. Process groups that consist of nothing else get the signal as a group, which a member cannot outrun
/// by forking. One pass: a process born meanwhile may be missed, so whoever wants them all gone repeats it
/// until nobody is left.
///
/// `group` is the command's process group, 0 if there is none yet. If the processes cannot be listed it gets
/// the signal all the same, provided that a child of ours is in it: then its number cannot be anybody else's.
Signalled signal_descendants(int signal, pid_t group, const std::vector<Process>& spared = {}) noexcept;

/// Those who got no signal. `left` is what the last pass found.
[[nodiscard]] Survivors survivors_of(const Signalled& left) noexcept;

/// Buries every child that has died. True if no child is left; for a subreaper that means no descendant.
bool bury_children() noexcept;

}  // namespace holdfast::cli
