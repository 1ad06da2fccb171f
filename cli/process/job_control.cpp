#include "process/job_control.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "rpc/posix/descriptor.hpp"
#include "terminal/exit_codes.hpp"

namespace holdfast::cli {

using posix::checked;
using posix::Descriptor;

sigset_t signal_set(std::initializer_list<int> signals) noexcept {
  sigset_t set{};
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

void block_all_signals() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

InheritedSignals::InheritedSignals() noexcept {
  sigprocmask(SIG_SETMASK, nullptr, &mask_);
  sigemptyset(&ignored_);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      sigaddset(&ignored_, signal);
  }
}

void InheritedSignals::restore() const noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    action.sa_handler = ignores(signal) ? SIG_IGN : SIG_DFL;
    sigaction(signal, &action, nullptr);  // refused for KILL, STOP and the C library's own: as it should be
  }
  sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

SignalQueue::SignalQueue(std::initializer_list<int> signals, const InheritedSignals& inherited) {
  sigemptyset(&queued_);
  for (const int signal : signals) {
    if (!inherited.ignores(signal)) sigaddset(&queued_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &queued_, nullptr);
  fd_ = Descriptor(checked(signalfd(-1, &queued_, SFD_CLOEXEC | SFD_NONBLOCK), "cannot create a signalfd"));
}

std::optional<int> SignalQueue::take() noexcept {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::optional<int> SignalQueue::take_one_of(std::initializer_list<int> signals) noexcept {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : signals) {
    if (sigismember(&queued_, signal) == 1) sigaddset(&wanted, signal);
  }
  const timespec at_once{};
  const int taken = sigtimedwait(&wanted, nullptr, &at_once);
  return taken > 0 ? std::optional(taken) : std::nullopt;
}

void SignalQueue::restore_default_actions() const noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    const bool ends_by_default =
        signal != SIGTSTP && signal != SIGCONT && signal != SIGWINCH && sigismember(&queued_, signal) == 1;
    if (!ends_by_default) continue;
    struct sigaction action{};
    action.sa_handler = [](int number) { _exit(exit_signal_base + number); };
    sigaction(signal, &action, nullptr);
  }
  pthread_sigmask(SIG_UNBLOCK, &queued_, nullptr);
}

void stop_by(int signal, bool whole_group) noexcept {
  kill(whole_group ? 0 : getpid(), signal);
  const auto only = signal_set({signal});
  sigset_t before;
  // Unblocked in this thread alone, so that this call does not return before the process is continued.
  pthread_sigmask(SIG_UNBLOCK, &only, &before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

using posix::Descriptor;

std::optional<ControllingTerminal> ControllingTerminal::open() {
  Descriptor fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  return ControllingTerminal(std::move(fd));
}

ControllingTerminal::ControllingTerminal(Descriptor fd) noexcept : fd_(std::move(fd)) {
  termios modes{};
  if (tcgetattr(fd_.get(), &modes) == 0) modes_ = modes;
}

pid_t ControllingTerminal::foreground() const noexcept {
  return tcgetpgrp(fd_.get());
}

bool ControllingTerminal::give_to(pid_t group) const noexcept {
  const BlockedSignals blocked(signal_set({SIGTTOU}));
  return tcsetpgrp(fd_.get(), group) == 0;
}

void ControllingTerminal::restore_modes() const noexcept {
  const BlockedSignals blocked(signal_set({SIGTTOU}));
  if (modes_) tcsetattr(fd_.get(), TCSADRAIN, &*modes_);
}

}  // namespace holdfast::cli
