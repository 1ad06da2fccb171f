#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <holdfast/guard.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "process/descendants.hpp"
#include "process/job_control.hpp"
#include "process/keeper.hpp"
#include "process/stop_count.hpp"

namespace holdfast::cli {

/// How a command under a lock ended.
struct CommandEnd {
  enum class Kind {
    exited,       ///< `value` is its wait status
    exec_failed,  ///< `value` is the errno
    lost,         ///< it was stopped because the lock was lost or the command was cancelled
    keeper_died,  ///< it was stopped because the keeper was killed
  };
  Kind kind{};
  int value = 0;
  Survivors survivors = {};
  /// exited: the keeper knew the lease to be proven until then.
  BootTime proven_until{};
  /// Why the last renewal of the lock failed, if it did.
  std::optional<Error> renewal_error = {};
};

/// holdfast's own loop while the command runs: sends the keeper each new deadline, forwards signals, follows
/// the terminal's stops, and stops the command when the lock is lost, the keeper dies or the command is
/// cancelled. One thread.
class Supervisor {
 public:
  struct Settings {
    std::chrono::milliseconds ttl{};
    StopTimes times{};
    /// Children that this process had before it became holdfast (`sleep 9 & exec holdfast ...`): not to be
    /// stopped.
    std::vector<Process> foreign_children;
    /// Stops the command like a loss, though the lock is held.
    std::stop_token cancelled = {};
    /// Called as soon as it is known that some processes cannot be stopped; stopping the others goes on.
    std::function<void(const Survivors&)> on_survivors;
    /// Called with a signal that could not be forwarded, because the command runs as another user.
    std::function<void(int)> on_refused_signal;
  };

  /// `terminal` may be null: no controlling terminal.
  Supervisor(Guard& guard, Keeper& keeper, SignalQueue& signals, const ControllingTerminal* terminal,
             Settings settings);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Runs the command to its end. Afterwards the terminal belongs to holdfast's group again, if it did
  /// before.
  [[nodiscard]] CommandEnd run(const std::vector<std::string>& environment);

 private:
  void wait_for_event();
  void follow_lease();
  void replace_silent_keeper_in_count();
  void follow_signals();
  std::optional<CommandEnd> follow_keeper();
  void command_stopped(int signal);
  void continued();
  [[nodiscard]] bool verify_lease();
  void stop_command();
  CommandEnd stop_without_keeper(CommandEnd::Kind kind, BootTime kill_at);
  [[nodiscard]] BootTime keeper_is_overdue_at() noexcept;
  [[nodiscard]] bool in_foreground() const noexcept;
  [[nodiscard]] BootTime proven_until() const noexcept;

  Guard& guard_;
  Keeper& keeper_;
  SignalQueue& signals_;
  const ControllingTerminal* terminal_;
  Settings settings_;
  posix::Descriptor loss_;
  BootTime announced_deadline_{};  ///< that the keeper knows
  BootTime stopped_by_ = never;    ///< a working keeper has stopped the command by then
  pid_t command_ = 0;
  bool gives_terminal_ = false;  ///< the command's group gets the terminal whenever holdfast's job has it
  bool stopping_ = false;
  bool keeper_stops_ = false;    ///< the keeper is stopping the command
  BootTime reported_late_ = {};  ///< the deadline that the keeper has reported to be near
  BootTime counted_for_ = {};    ///< the deadline for which this process has counted in its place
  StopCount stop_count_;
  Descendants descendants_;
  std::future<bool> verification_;  ///< valid only while an extension is under way
};

}  // namespace holdfast::cli
