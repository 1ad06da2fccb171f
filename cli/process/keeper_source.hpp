#pragma once

#include <sys/types.h>

#include <mutex>
#include <vector>

#include "process/descendants.hpp"
#include "process/keeper.hpp"
#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

/// A process that forks keepers on request, for a program with threads that runs many commands: a keeper must
/// be forked by a process with one thread. It is the parent of all keepers, and the subreaper of what is left
/// when a keeper is killed. It ends when holdfast has ended and the last keeper with it.
class KeeperSource {
 public:
  /// Forks the process. Call it while this process has one thread. The redirections of the plan are not used.
  KeeperSource(const KeeperPlan& plan, const InheritedSignals& inherited);
  /// Waits up to a second until the process has ended.
  ~KeeperSource();
  KeeperSource(const KeeperSource&) = delete;
  KeeperSource& operator=(const KeeperSource&) = delete;

  /// Gives a copy of the descriptor to that process and to every keeper that it forks from now on: each keeps
  /// it open as long as it lives. Thread-safe. Throws Error(Internal).
  void keep_open(int descriptor);
  /// Forks a keeper for a command with these redirections; `from` may be any descriptor of this process.
  /// Thread-safe. Throws Error(Internal).
  [[nodiscard]] Keeper fork(const std::vector<Redirection>& redirections);
  /// Kills this keeper, which is dead or stuck, and every process that it or an earlier one has left, and
  /// waits for their end, for a few seconds at most. Thread-safe.
  [[nodiscard]] Survivors sweep(const Keeper& keeper) noexcept;

  static constexpr std::size_t max_redirections = 4;

 private:
  pid_t pid_ = 0;
  std::mutex mutex_;  ///< one request at a time
  std::mutex lost_mutex_;
  std::vector<pid_t> lost_;  ///< for which no sweep has been requested yet
  posix::Descriptor socket_;
};

}  // namespace holdfast::cli
