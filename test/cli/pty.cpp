#include "pty.hpp"

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace holdfast::test {

Pty::Pty(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::vector<char*> arguments;
  for (const auto& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
  if (pid_ < 0) throw std::runtime_error("no pseudo terminal");
  if (pid_ > 0) return;
  for (const auto& one : environment) {
    const auto equals = one.find('=');
    setenv(one.substr(0, equals).c_str(), one.substr(equals + 1).c_str(), 1);
  }
  for (int signal = 1; signal < 32; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(arguments[0], arguments.data());
  _exit(125);
}

Pty::~Pty() {
  close(terminal_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Pty::type(const std::string& text) const {
  if (write(terminal_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("cannot type");
  }
}

bool Pty::shows(const std::string& text, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (const auto at = screen_.find(text, seen_); at != std::string::npos) {
      seen_ = at + text.size();
      return true;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd watched{terminal_, POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 4096> chunk{};
    const auto n = read(terminal_, chunk.data(), chunk.size());
    if (n <= 0) return false;
    screen_.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

bool Pty::shows_all(const std::vector<std::string>& texts) {
  const auto from = seen_;
  auto seen = from;
  for (const auto& text : texts) {
    seen_ = from;
    if (!shows(text)) return false;
    seen = std::max(seen, seen_);
  }
  seen_ = seen;
  return true;
}

}  // namespace holdfast::test
