#include "terminal.hpp"

#include <fcntl.h>

#include <csignal>

namespace holdfast::cli {
namespace {

class WithoutTtou {
 public:
  WithoutTtou() noexcept {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~WithoutTtou() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutTtou(const WithoutTtou&) = delete;
  WithoutTtou& operator=(const WithoutTtou&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::optional<Terminal> Terminal::controlling() {
  Descriptor fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  return Terminal(std::move(fd));
}

Terminal::Terminal(Descriptor fd) noexcept : fd_(std::move(fd)) {
  termios modes{};
  if (tcgetattr(fd_.get(), &modes) == 0) modes_ = modes;
}

pid_t Terminal::foreground() const noexcept {
  return tcgetpgrp(fd_.get());
}

bool Terminal::give_to(pid_t group) const noexcept {
  const WithoutTtou quiet;
  return tcsetpgrp(fd_.get(), group) == 0;
}

void Terminal::restore_modes() const noexcept {
  const WithoutTtou quiet;
  if (modes_) tcsetattr(fd_.get(), TCSADRAIN, &*modes_);
}

}  // namespace holdfast::cli
