#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <initializer_list>
#include <string>
#include <vector>

#include "process/process_tree.hpp"

namespace holdfast::cli {

/// Processes of a command that could not be stopped.
struct Survivors {
  std::int32_t count = 0;   ///< processes that may not be signalled
  std::int32_t hidden = 0;  ///< of these, hidden by /proc: there may be more
  /// The processes could not be listed, so that only the command's own process group and children of the
  /// supervising process were signalled.
  bool unlisted = false;

  [[nodiscard]] bool any() const noexcept { return count > 0 || unlisted; }
};

/// Says what cannot be seen or signalled, why, and what happens to the lock. Precondition: any().
[[nodiscard]] std::string describe(const Survivors& survivors);

struct Signalled {
  std::size_t living = 0;        ///< descendants seen alive that got the signal or have just died
  std::size_t beyond_reach = 0;  ///< living descendants that run as another user and may not be signalled
  /// Those of `beyond_reach` that /proc hides (hidepid). They may have descendants that nothing shows, so
  /// both numbers are lower bounds.
  std::size_t hidden = 0;
  /// Children of this process that have died and are not reaped yet. What they leave may have become children
  /// of this process after these were listed.
  std::size_t unburied = 0;
  bool all_seen = false;  ///< if not, the numbers are meaningless

  [[nodiscard]] bool all_beyond_reach() const noexcept { return all_seen && living == 0 && beyond_reach > 0; }
};

/// How many processes have to be stopped, for StopCount. One of which it is not known counts as what the
/// search for its children costs.
[[nodiscard]] unsigned to_be_stopped(const Signalled& checked) noexcept;

/// Signals the descendants of this process. Children whose parents have died are among them as long as it is
/// a subreaper.
class Descendants {
 public:
  /// Sends `signals` in this order (none: only checks) to all that live, without `spared` and theirs. One
  /// pass: it may miss a process that is forked meanwhile, so repeat KILL until none is left.
  ///
  /// `group` is the process group made for the command, 0 if there is none yet. It gets the signals before
  /// anything is looked for, provided that a child of this process is in it: then its number cannot have been
  /// reused. Other groups that consist of descendants alone get them as a group too, which a member cannot
  /// outrun by forking.
  ///
  /// Where processes cannot be listed, that group and children of this process get the signals.
  Signalled signal(std::initializer_list<int> signals, pid_t group,
                   const std::vector<Process>& spared = {}) noexcept;

 private:
  void signal_unlisted(std::initializer_list<int> signals, pid_t group, bool group_has_them,
                       const std::vector<Process>& spared);

  ChildSearch search_;
};

/// Sleeps until a child of this process other than `spared` has ended, or until `time`. Must not be called
/// while another thread reaps children.
void sleep_until_child_ends(BootTime time, const std::vector<Process>& spared) noexcept;

/// Summarises the last pass, `left`.
[[nodiscard]] Survivors survivors_of(const Signalled& left) noexcept;

/// Reaps every child that has died. True if no child is left; for a subreaper that means no descendant.
bool reap_children() noexcept;

}  // namespace holdfast::cli
