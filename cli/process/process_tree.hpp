#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>
#include <vector>

namespace holdfast::cli {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  unsigned long long started = 0;  ///< clock ticks since boot: with the pid, an identity
  bool zombie = false;
  /// A child of this process of which only the pid is known, because /proc does not show it. Until it is
  /// reaped its pid is an identity.
  bool hidden = false;
};

/// Whether both are the same process.
[[nodiscard]] bool same(const Process& a, const Process& b) noexcept;

/// What a walk asks about the processes of a machine.
class ProcessTable {
 public:
  ProcessTable() = default;
  virtual ~ProcessTable() = default;
  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  /// The children of a process, none if it has ended. Nothing if they cannot be listed.
  [[nodiscard]] virtual std::optional<std::vector<pid_t>> children(pid_t parent) = 0;
  /// Nothing if it has ended or is not shown.
  [[nodiscard]] virtual std::optional<Process> find(pid_t pid) = 0;
  /// The process if it is a living child of this one, whether it is shown or not.
  [[nodiscard]] virtual std::optional<Process> own_child(pid_t pid) = 0;
};

/// The descendants of `root` that `table` knows, zombies among them. `spared` are left out with their
/// descendants. Nothing if they cannot be listed.
///
/// A process whose parent ends during a walk can be missed: it is no longer below its parent and not yet seen
/// below the subreaper. So the walk is repeated until two of them agree, `most_walks` times at most.
[[nodiscard]] std::optional<std::vector<Process>> descendants_of(pid_t root, ProcessTable& table,
                                                                 const std::vector<Process>& spared,
                                                                 int most_walks);

/// Whether the pids in a /proc are those of this process's pid namespace, by the text of its `self/status`.
/// In another namespace's they name other processes. `namespaces`: whether the kernel has pid namespaces;
/// one that has none does not list the pids by namespace.
[[nodiscard]] bool has_pids_of_this_namespace(std::string_view status, pid_t self, bool namespaces) noexcept;
/// The same for /proc. False also if it cannot be read.
[[nodiscard]] bool proc_has_pids_of_this_namespace() noexcept;

/// The descendants of this process; see descendants_of(). Costs what it has of them, not what the machine has
/// of processes, where the kernel lists children (CONFIG_PROC_CHILDREN); elsewhere all of /proc is read.
/// `leader`: a child that is known however little /proc shows; 0: none.
[[nodiscard]] std::optional<std::vector<Process>> own_descendants(pid_t leader,
                                                                  const std::vector<Process>& spared,
                                                                  int most_walks);

/// The children of this process, including those that /proc hides.
[[nodiscard]] std::vector<Process> own_children();

/// Reads the process now. Nothing if it has ended or is not shown.
[[nodiscard]] std::optional<Process> read_process(pid_t pid);

/// Whether this process has a living child, asked of the kernel, whatever /proc shows. False as well if
/// another of its children is dead and not reaped yet.
[[nodiscard]] bool has_living_child() noexcept;

/// Finds the living children of this process without /proc, by asking the kernel for one pid after the other.
class ChildSearch {
 public:
  /// Looks at the 32,768 pids from `near` on, where children are most likely (descendants are most often
  /// younger than the command), and at as many others: the next ones with each call, round and round.
  [[nodiscard]] std::vector<pid_t> next(pid_t near);

 private:
  pid_t next_ = 0;
};

}  // namespace holdfast::cli
