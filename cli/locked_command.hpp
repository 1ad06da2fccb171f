#pragma once

#include <holdfast/guard.hpp>
#include <holdfast/open.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "keeper.hpp"
#include "lease_times.hpp"
#include "signals.hpp"
#include "subject.hpp"
#include "supervisor.hpp"

namespace holdfast::cli {

class EndingReport;

/// A command that is to run under a lock: what has to be done to this process before the engine is opened,
/// while there is one thread, and then the running. Make it first; take the lock; run.
class LockedCommand {
 public:
  LockedCommand(const std::vector<std::string>& command, const LeaseTimes& times,
                std::vector<Redirection> redirections = {});

  /// What was sent to us while there is no command yet.
  [[nodiscard]] SignalQueue& signals() noexcept { return signals_; }
  /// A signal that came before there was a command: whoever sent it does not want one to begin.
  [[nodiscard]] std::optional<int> told_to_end() noexcept;

  /// Runs it to its end. `report` gets what is to be said before that. `environment` is added to ours and to
  /// what describes the lock. When `called_off` is triggered, the command is ended as if the lock were lost.
  [[nodiscard]] Ending run(Guard& guard, const std::string& url, EndingReport& report,
                           std::vector<std::string> environment = {}, std::stop_token called_off = {});
  /// How long run() took, so far.
  [[nodiscard]] std::chrono::nanoseconds held() const noexcept { return BootClock::now() - held_since_; }

 private:
  LeaseTimes times_;
  InheritedSignals inherited_;
  std::vector<Process> strangers_;
  Keeper keeper_;
  SignalQueue signals_;
  BootTime held_since_{};
};

/// How long a lock that is let go at our end, or that was lost, may take to be released: its store may be the
/// reason, and its lease ends anyway.
inline constexpr std::chrono::milliseconds last_release_timeout{1000};

/// memory: keeps nobody out; says so.
void warn_of_private_locks(Holdfast& holdfast);

/// How the end of a command under a lock is told.
class EndingReport {
 public:
  EndingReport(bool json, Subject subject, const LeaseTimes& times)
      : json_(json), subject_(std::move(subject)), times_(times) {}

  /// One line on stderr; stdout is the command's.
  void tell(std::string_view code, const std::string& message) const;
  /// The command could not be executed: says why; the exit code.
  [[nodiscard]] int exec_failed(const std::string& command, int error) const;
  /// Why the command was ended.
  void say_loss(const Ending& ending, std::optional<LossReason> reason, std::chrono::nanoseconds held) const;
  /// Some of the command cannot be ended, and why. Once, however often it is found.
  void say_survivors(const Survivors& survivors);
  /// A signal that asks the command to end did not reach it.
  void say_not_forwarded(int signal) const;
  /// Whether the lock of a command that ended by itself had been taken away from under it, which no proof can
  /// exclude. `was_held`: what the release said.
  [[nodiscard]] static bool taken_away(const Ending& ending, std::optional<LossReason> reason,
                                       bool was_held) noexcept;
  void say_taken_away() const;

 private:
  bool json_;
  Subject subject_;
  LeaseTimes times_;
  bool said_survivors_ = false;
};

/// Ends this process without releasing the lock, so that the next holder is kept out for the rest of the
/// lease at least: processes of the command are still there.
[[noreturn]] void leave_lock_to_expire(int exit_code) noexcept;

/// 128 + N, or the code: of a command that ended by itself.
[[nodiscard]] int exit_code_of_status(int wait_status) noexcept;

}  // namespace holdfast::cli
