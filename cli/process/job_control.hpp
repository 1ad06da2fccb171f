#pragma once

#include <sys/types.h>
#include <termios.h>

#include <csignal>
#include <initializer_list>
#include <optional>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

[[nodiscard]] sigset_t signal_set(std::initializer_list<int> signals) noexcept;

/// Blocks signals in the calling thread for its lifetime.
class BlockedSignals {
 public:
  explicit BlockedSignals(const sigset_t& signals) noexcept {
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// For threads that leave signals to the main thread. With SIGTTOU blocked, they can also write to a terminal
/// that the command has.
void block_all_signals() noexcept;

/// The mask and the ignored signals of the caller, for the command to inherit unchanged (nohup's ignored
/// SIGHUP, for one). Construct it before any of them is changed.
class InheritedSignals {
 public:
  InheritedSignals() noexcept;
  [[nodiscard]] bool ignores(int signal) const noexcept { return sigismember(&ignored_, signal) == 1; }
  /// In a child before exec, which resets handlers. The mask comes last, so that pending signals meet the
  /// caller's dispositions.
  void restore() const noexcept;

 private:
  sigset_t mask_{};
  sigset_t ignored_{};
};

/// Blocks signals in the calling thread, and so in threads it starts later, and makes them readable. Signals
/// that the caller ignored are left out: blocked, they would be queued all the same.
class SignalQueue {
 public:
  SignalQueue(std::initializer_list<int> signals, const InheritedSignals& inherited);
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  /// The next one that has arrived, without waiting.
  [[nodiscard]] std::optional<int> take() noexcept;
  /// The same for some of them only; the others stay in the queue.
  [[nodiscard]] std::optional<int> take_one_of(std::initializer_list<int> signals) noexcept;
  /// Ends queueing: pending and later signals end this process at once with 128 + their number, or stop and
  /// continue it, even within a call that blocks. For when only waiting is left. To be called by the thread
  /// that constructed the queue.
  void restore_default_actions() const noexcept;

 private:
  sigset_t queued_{};
  posix::Descriptor fd_;
};

/// Stops this process by `signal` (SIGTSTP, SIGTTIN, SIGTTOU), though this thread blocks it, until it is
/// continued. The kernel does not stop an orphaned process group, which no shell could continue; then this
/// returns at once. With `whole_group`, the rest of the process group gets the signal too.
void stop_by(int signal, bool whole_group) noexcept;

/// The controlling terminal of the session: which process group reads it and gets its Ctrl-C and Ctrl-Z.
class ControllingTerminal {
 public:
  /// Nothing if the session has none.
  [[nodiscard]] static std::optional<ControllingTerminal> open();

  /// Negative if the terminal is gone.
  [[nodiscard]] pid_t foreground() const noexcept;
  /// Works from a background group too (SIGTTOU is blocked meanwhile). False if that group is gone.
  bool give_to(pid_t group) const noexcept;
  /// Restores the modes of the time of open(): for after a full-screen command was killed.
  void restore_modes() const noexcept;

 private:
  explicit ControllingTerminal(posix::Descriptor fd) noexcept;
  posix::Descriptor fd_;
  std::optional<termios> modes_;
};

}  // namespace holdfast::cli
