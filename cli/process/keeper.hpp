#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <optional>
#include <string>
#include <vector>

#include "process/descendants.hpp"
#include "process/job_control.hpp"
#include "process/stop_times.hpp"
#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

/// One of the command's descriptors, in place of the one it would inherit.
struct Redirection {
  int from = -1;  ///< holdfast's, 10 or higher, so that redirections do not overlap
  int to = -1;    ///< the command's, below 10
};

/// How the command is to be run and stopped.
struct KeeperPlan {
  std::vector<std::string> command;  ///< not empty
  StopTimes times = {};
  std::vector<Redirection> redirections = {};
  /// A descriptor that the keeper keeps open as long as it lives; -1: none. The command does not get it.
  int kept_open = -1;
};

// What holdfast and its keeper send each other over a SOCK_SEQPACKET pair: one struct to a packet. Both ends
// are one program, forked, so layout and byte order are no question. Times are CLOCK_BOOTTIME in nanoseconds,
// which all processes of one machine share.

/// From holdfast. End of file instead of an order means that holdfast is dead.
struct KeeperOrder {
  enum class Kind : std::int32_t {
    start,         ///< run the command; followed by environment additions, NAME=VALUE, each NUL-terminated
    new_deadline,  ///< the lease was renewed
    signal,        ///< send `signal` to the command's group
    stop,          ///< the lock is lost: stop the command and all its descendants
  };
  Kind kind{};
  std::int32_t signal = 0;
  /// start and new_deadline: the lease is proven until then.
  std::int64_t deadline_ns = 0;
  /// start: whether the command's group gets the terminal.
  bool give_terminal = false;
};

/// Returns the name of the first variable that cannot be passed on, because it contains a NUL byte: what
/// follows would be another variable. Empty if all can be.
[[nodiscard]] std::string variable_with_nul(const std::vector<std::string>& environment);

/// The longest packet: an order and its environment.
inline constexpr std::size_t max_keeper_packet = 64U * 1024;

/// From the keeper. End of file before `exited` or `exec_failed` means that the keeper is dead.
struct KeeperReport {
  enum class Kind : std::int32_t {
    started,      ///< `value` is the command's pid, which is also its process group
    exec_failed,  ///< `value` is the errno
    stopped,      ///< the command was stopped by signal `value`
    refused,      ///< signal `value` was not forwarded: the command may not be signalled
    late,         ///< the lease was not renewed when it was due; the keeper is ready to stop the command
    stopping,     ///< the command is being stopped, which is final
    survivors,    ///< some processes cannot be stopped; the keeper goes on trying
    exited,       ///< `value` is the wait status; the keeper is gone after this
  };
  /// Why the keeper stopped the command.
  enum class Cause : std::int32_t {
    none,      ///< it did not: the command exited
    ordered,   ///< by holdfast, or by its death
    deadline,  ///< the lease was about to expire, or had expired before that was noticed
  };
  Kind kind{};
  std::int32_t value = 0;
  Cause cause = Cause::none;
  /// survivors and exited
  Survivors survivors = {};
  /// exited and late: the lease is proven until then. A command that exited did so before.
  std::int64_t deadline_ns = 0;
};

/// holdfast's end of the process between it and the command.
///
/// The keeper exists because holdfast itself may die or be stopped at any moment. It is forked before the
/// engine is opened and before any thread exists; it only waits, so that what makes holdfast fail (memory,
/// disk, the engine, a bug) does not affect it. It has its own process group, out of reach of signals to
/// holdfast's job, and ignores those that are sent to whole sessions. It stops the command and every
/// descendant when holdfast dies and before the lease expires. See docs/internals/keeper.md.
class Keeper {
 public:
  /// Forks. Call it while the process has one thread.
  [[nodiscard]] static Keeper fork(const KeeperPlan& plan, const InheritedSignals& inherited);
  /// A keeper that another process has forked, with holdfast's end of its socket; see KeeperSource.
  [[nodiscard]] static Keeper of(pid_t pid, posix::Descriptor socket) noexcept {
    return {pid, std::move(socket)};
  }
  /// Waits up to a second until the keeper has ended: it would stay a zombie where orphans are not reaped, as
  /// in many containers.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Throws Error(InvalidArgument) if the environment is too long to be sent or has a variable_with_nul(),
  /// Error(Internal) if sending fails: then there is no command, and no report of it would come.
  void start(BootTime deadline, const std::vector<std::string>& environment, bool give_terminal);
  /// Any other order. One to a dead keeper vanishes: next() reports the death.
  void send(const KeeperOrder& order) noexcept;

  struct Received {
    std::optional<KeeperReport> report;
    bool dead = false;
  };
  /// The next report, without waiting.
  [[nodiscard]] Received next() noexcept;

 private:
  Keeper(pid_t pid, posix::Descriptor socket) noexcept : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_;
  posix::Descriptor socket_;
};

/// For a process that ends only when its work is done: ignores all signals but those that a fault of it
/// raises.
void ignore_signals() noexcept;

/// Signals do not end the sleep; it may be called in a forked child of a process with threads.
void sleep_until(BootTime time) noexcept;

/// The keeper's whole life, in the forked child.
[[noreturn]] void run_keeper(posix::Descriptor socket, const KeeperPlan& plan,
                             const InheritedSignals& inherited) noexcept;

}  // namespace holdfast::cli
