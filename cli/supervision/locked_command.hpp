#pragma once

#include <chrono>
#include <holdfast/guard.hpp>
#include <holdfast/lock_options.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lock_wait/lock_wait.hpp"
#include "process/job_control.hpp"
#include "process/keeper.hpp"
#include "supervision/supervisor.hpp"

namespace holdfast::cli {

/// The times of a command under a lock, checked against each other.
struct LeaseTimes {
  std::chrono::milliseconds ttl{};
  /// Zero: no limit.
  std::chrono::milliseconds max_hold{};
  StopTimes stop{};

  /// For acquiring the lock, without a wait.
  [[nodiscard]] LockOptions lock_options() const noexcept;
};

/// As typed.
struct LeaseOptions {
  /// The option for the ttl, with its dashes.
  std::string ttl_name = "--ttl";
  std::string ttl = "30";
  std::optional<std::string> grace = {};
  std::optional<std::string> max_hold = {};

  /// Throws UsageError.
  [[nodiscard]] LeaseTimes check() const;
};

/// Reports on stderr, because stdout is the command's, how a command under a lock ended.
class EndReport {
 public:
  EndReport(bool json, LockWording wording, const LeaseTimes& times)
      : json_(json), wording_(std::move(wording)), times_(times) {}

  void report(std::string_view code, const std::string& message,
              LogDetails what = {.event = "error", .level = LogSeverity::error}) const;
  /// Reports that another holder has the lock.
  void refused(const AcquireRefusal& refusal, std::chrono::nanoseconds waited) const;
  // For the JSON log only.
  void acquired(const Guard& guard, const Locks& locks, std::chrono::nanoseconds waited);
  void command_ended(const CommandEnd& end) const;
  void released() const;
  /// Reports why the command could not be executed, and returns the exit code.
  [[nodiscard]] int exec_failed(const std::string& command, int error) const;
  /// Reports why the command was stopped.
  void loss(const CommandEnd& end, std::optional<LossReason> reason, std::chrono::nanoseconds held) const;
  /// Reports that some processes cannot be stopped, once, however often it is found.
  void survivors(const Survivors& survivors);
  /// Reports that a signal that asks the command to end did not reach it.
  void not_forwarded(int signal) const;

 private:
  /// With the fields of the lock, the fence and the holder if they are known.
  [[nodiscard]] LogDetails details(LogDetails of) const;

  bool json_;
  LockWording wording_;
  LeaseTimes times_;
  BootTime acquired_at_ = {};
  LogFields granted_;  ///< fence and holder
  bool survivors_reported_ = false;
};

/// A command that is to run under a lock. Construct it first, because it prepares this process while there is
/// one thread; then acquire the lock; then run.
class LockedCommand {
 public:
  LockedCommand(const std::vector<std::string>& command, const LeaseTimes& times,
                std::vector<Redirection> redirections = {});

  /// The signals that came before there is a command.
  [[nodiscard]] SignalQueue& signals() noexcept { return signals_; }
  /// Of these, one that asks to end: then the command should not begin.
  [[nodiscard]] std::optional<int> take_end_signal() noexcept;

  /// Runs it to its end. `report` gets what is known before that. `environment` is added to that of this
  /// process and to the description of the lock. `cancelled` stops the command as a loss of the lock does.
  [[nodiscard]] CommandEnd run(Guard& guard, const std::string& url, EndReport& report,
                               std::vector<std::string> environment = {}, std::stop_token cancelled = {});
  /// How long run() took, so far.
  [[nodiscard]] std::chrono::nanoseconds held() const noexcept { return BootClock::now() - held_since_; }

 private:
  LeaseTimes times_;
  InheritedSignals inherited_;
  std::vector<Process> foreign_children_;
  Keeper keeper_;
  SignalQueue signals_;
  BootTime held_since_{};
};

/// Exits without releasing the lock, because processes of the command are left: the next holder is kept out
/// for the rest of the lease at least.
[[noreturn]] void exit_without_release(int exit_code) noexcept;

/// For a command that was stopped.
[[nodiscard]] int exit_code_of_loss(const CommandEnd& end) noexcept;
/// For a command that ended without holdfast: its code, or 128 + N if it died of signal N.
[[nodiscard]] int exit_code_of_status(int wait_status) noexcept;

}  // namespace holdfast::cli
