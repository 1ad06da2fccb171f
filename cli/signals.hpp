#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

#include "descriptor.hpp"

namespace holdfast::cli {

/// The mask and the ignored signals that our caller gave us, to be given to the command unchanged (nohup's
/// ignored SIGHUP, for one). Take it before anything is changed.
class InheritedSignals {
 public:
  InheritedSignals() noexcept;
  [[nodiscard]] bool ignores(int signal) const noexcept { return sigismember(&ignored_, signal) == 1; }
  /// In a child before exec. Handlers need no care: exec resets them. The mask comes last, so what was
  /// blocked until then meets the caller's dispositions.
  void restore() const noexcept;

 private:
  sigset_t mask_{};
  sigset_t ignored_{};
};

/// Blocks signals in the calling thread, and so in threads it starts later, and makes them readable.
/// Signals the caller had ignored are left out: blocked, they would arrive all the same.
class SignalQueue {
 public:
  SignalQueue(std::initializer_list<int> signals, const InheritedSignals& inherited);
  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
  /// The next one that has arrived, without waiting.
  [[nodiscard]] std::optional<int> take() noexcept;
  /// The same for some of them only; the others stay in the queue.
  [[nodiscard]] std::optional<int> take_one_of(std::initializer_list<int> signals) noexcept;
  /// No queue any more: what waits in it, and what comes, ends this process at once with 128 + its number, or
  /// stops and continues it, even within a call that blocks. For when only waiting is left. To be called by
  /// the thread that made the queue.
  void obey_from_now_on() const noexcept;

 private:
  sigset_t queued_{};
  Descriptor fd_;
};

/// Does to this process what `signal` (SIGTSTP, SIGTTIN, SIGTTOU) does by default, though this thread blocks
/// it: stops until somebody continues it. An orphaned process group is not stopped, by the kernel's rules:
/// nobody could continue it; then this returns at once. With `whole_group`, the rest of our process group
/// gets the signal too.
void stop_by(int signal, bool whole_group) noexcept;

}  // namespace holdfast::cli
