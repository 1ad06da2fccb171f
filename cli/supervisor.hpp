#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <holdfast/guard.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "descendants.hpp"
#include "keeper.hpp"
#include "signals.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// How a command under a lock ended.
struct Ending {
  enum class Kind {
    exited,       ///< by itself; `value` is its wait status
    exec_failed,  ///< `value` is the errno
    lost,         ///< the lock was lost, or the command was called off, and so it was ended
    keeper_died,  ///< the keeper was killed and the command was ended
  };
  Kind kind{};
  int value = 0;
  Survivors survivors = {};
  /// exited: until then the lease was known to be proven, by the keeper's book.
  BootTime proven_until{};
};

/// holdfast's own loop while the command runs: tells the keeper each new deadline, forwards signals, follows
/// the terminal's stops, and ends the command when the lock is lost, the keeper dies or the command is called
/// off. One thread.
class Supervisor {
 public:
  struct Settings {
    std::chrono::milliseconds ttl{};
    std::chrono::nanoseconds grace{};
    std::chrono::nanoseconds margin{};
    /// Children our process had before it became holdfast (`sleep 9 & exec holdfast ...`): not ours to end.
    std::vector<Process> strangers;
    /// Somebody does not want the command to go on though the lock is held: ends it like a loss.
    std::stop_token called_off = {};
    /// Called as soon as it is known that some of the command cannot be ended, which goes on all the same.
    std::function<void(const Survivors&)> on_survivors;
    /// Called with a signal that could not be forwarded, because the command runs as another user.
    std::function<void(int)> on_refused_signal;
  };

  /// `terminal` may be null: no controlling terminal.
  Supervisor(Guard& guard, Keeper& keeper, SignalQueue& signals, const Terminal* terminal, Settings settings);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Runs the command to its end. The terminal is ours again afterwards, if it was.
  [[nodiscard]] Ending run(const std::vector<std::string>& environment);

 private:
  void wait_for_something() const;
  void follow_lease();
  void follow_signals();
  std::optional<Ending> follow_keeper();
  void stopped(int signal);
  void continued();
  [[nodiscard]] bool verify_lease();
  void end_command();
  Ending end_it_ourselves(Ending::Kind kind, BootTime kill_at);
  [[nodiscard]] BootTime overdue() const noexcept;
  [[nodiscard]] bool in_foreground() const noexcept;
  [[nodiscard]] BootTime proven_until() const noexcept;

  Guard& guard_;
  Keeper& keeper_;
  SignalQueue& signals_;
  const Terminal* terminal_;
  Settings settings_;
  Descriptor loss_;
  BootTime told_{};                  ///< the deadline the keeper knows
  BootTime kill_obeyed_by_ = never;  ///< the keeper, if it works, has obeyed the order to kill by then
  pid_t command_ = 0;
  bool gives_terminal_ = false;  ///< the command's group gets the terminal whenever our job has it
  bool ending_ = false;
  std::future<bool> verification_;  ///< valid only while an extension is under way
};

}  // namespace holdfast::cli
