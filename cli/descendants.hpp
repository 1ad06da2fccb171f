#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

namespace holdfast::cli {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  unsigned long long started = 0;  ///< clock ticks since boot: with the pid, an identity
  bool zombie = false;
};

/// Every process of the machine that /proc shows us.
[[nodiscard]] std::vector<Process> all_processes();

/// The living descendants of `root`, itself and zombies left out. Children whose parents have died are
/// among them as long as `root` is a subreaper. `spared`: processes that, with their own descendants, do
/// not count.
[[nodiscard]] std::vector<Process> descendants_of(pid_t root, const std::vector<Process>& spared = {});

struct Signalled {
  std::size_t living = 0;        ///< descendants seen alive that got the signal or have just died
  std::size_t beyond_reach = 0;  ///< living descendants we may not signal (they run as another user)
};

/// Sends `signal` (0 only looks) to all living descendants of `root`. Process groups that consist of
/// nothing else get it as a group, which a member cannot outrun by forking. One pass: a process born
/// meanwhile may be missed, so whoever wants them all gone repeats it until nobody is left.
Signalled signal_descendants(pid_t root, int signal, const std::vector<Process>& spared = {}) noexcept;

}  // namespace holdfast::cli
