#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

/// Processes of a command that could not be stopped.
struct Survivors {
  std::int32_t count = 0;   ///< processes that may not be signalled
  std::int32_t hidden = 0;  ///< of these, hidden by /proc: there may be more
  /// The processes could not be listed, so that only the command's own process group was signalled.
  bool unlisted = false;

  [[nodiscard]] bool any() const noexcept { return count > 0 || unlisted; }
};

/// Says what cannot be seen or signalled, why, and what happens to the lock. Precondition: any().
[[nodiscard]] std::string describe(const Survivors& survivors);

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  unsigned long long started = 0;  ///< clock ticks since boot: with the pid, an identity
  bool zombie = false;
  /// A child of this process that /proc does not show. Until it is reaped its pid is an identity.
  bool hidden = false;
};

/// Lists the processes that /proc shows. Nothing if it could not be read completely (it is not mounted, no
/// descriptor is left): a partial list proves nothing.
[[nodiscard]] std::optional<std::vector<Process>> all_processes();

/// Lists the children of this process, including those that /proc hides.
[[nodiscard]] std::vector<Process> own_children();

struct Signalled {
  std::size_t living = 0;        ///< descendants seen alive that got the signal or have just died
  std::size_t beyond_reach = 0;  ///< living descendants that run as another user and may not be signalled
  /// Those of `beyond_reach` that /proc hides (hidepid). They may have descendants that nothing shows, so
  /// both numbers are lower bounds.
  std::size_t hidden = 0;
  bool all_seen = false;  ///< if not, the numbers are meaningless

  [[nodiscard]] bool all_beyond_reach() const noexcept { return all_seen && living == 0 && beyond_reach > 0; }
};

/// Sends `signal` (0 only checks) to all living descendants of this process. Children whose parents have died
/// are among them as long as it is a subreaper. `spared`: processes that are left alone with their
/// descendants. Process groups that consist of descendants alone get the signal as a group, which a member
/// cannot outrun by forking. One pass: it may miss a process that is forked meanwhile, so repeat it until
/// none is left.
///
/// `group` is the command's process group, 0 if there is none yet. If the processes cannot be listed it still
/// gets the signal, provided that a child of this process is in it: then its number cannot have been reused.
Signalled signal_descendants(int signal, pid_t group, const std::vector<Process>& spared = {}) noexcept;

/// Summarises the last pass, `left`.
[[nodiscard]] Survivors survivors_of(const Signalled& left) noexcept;

/// Reaps every child that has died. True if no child is left; for a subreaper that means no descendant.
bool reap_children() noexcept;

}  // namespace holdfast::cli
