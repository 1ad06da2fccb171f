#include "acquire/interruptible_wait.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>

#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

InterruptibleWait::InterruptibleWait(SignalQueue& signals, Announce announce)
    : signals_(signals),
      announces_(announce == Announce::always ||
                 (announce == Announce::on_a_terminal && isatty(STDERR_FILENO) == 1)),
      changed_(posix::make_eventfd()),
      thread_([this] { listen(); }) {}

InterruptibleWait::~InterruptibleWait() {
  finish();
}

void InterruptibleWait::enter(Stage stage, std::string name) {
  {
    const std::lock_guard lock(mutex_);
    stage_ = stage;
    name_ = std::move(name);
  }
  eventfd_write(changed_.get(), 1);
}

void InterruptibleWait::begin_attempts() noexcept {
  enter(Stage::attempting);
}

void InterruptibleWait::begin_waiting(std::string name) {
  enter(Stage::waiting, std::move(name));
}

std::optional<int> InterruptibleWait::finish() {
  if (thread_.joinable()) {
    enter(Stage::finished);
    thread_.join();
  }
  return signal_;
}

void InterruptibleWait::end_by(int signal) {
  {
    // Under the mutex: begin_attempts() does not return while this process is about to end.
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::opening) _exit(exit_signal_base + signal);
  }
  signal_ = signal;
  stop_.request_stop();
}

void InterruptibleWait::listen() {
  int timeout = -1;
  while (true) {
    std::array<pollfd, 2> watched{{{signals_.descriptor(), POLLIN, 0}, {changed_.get(), POLLIN, 0}}};
    const int ready = poll(watched.data(), watched.size(), timeout);
    if (ready == 0) {
      const std::lock_guard lock(mutex_);
      if (stage_ == Stage::waiting) complain("waiting for " + name_ + " ...");
      timeout = -1;
    }
    if (watched[1].revents != 0) {
      eventfd_t changes = 0;
      eventfd_read(changed_.get(), &changes);
      const std::lock_guard lock(mutex_);
      if (stage_ == Stage::finished) return;
      if (stage_ == Stage::waiting && announces_) timeout = 1000;
    }
    while (const auto signal = signals_.take()) {
      if (*signal == SIGTSTP) {
        stop_by(SIGTSTP, false);
      } else if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP || *signal == SIGQUIT) {
        return end_by(*signal);
      }
    }
  }
}

}  // namespace holdfast::cli
