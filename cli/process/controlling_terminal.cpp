#include "process/controlling_terminal.hpp"

#include <fcntl.h>

#include "process/signals.hpp"

namespace holdfast::cli {

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
