#include "top/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace holdfast::cli::top {
namespace {

constexpr std::string_view to_alternate_screen = "\x1b[?1049h\x1b[?25l\x1b[2J";
/// Cleared first: tmux 3.3 leaves a part of it if the window has grown meanwhile.
constexpr std::string_view to_normal_screen = "\x1b[0m\x1b[2J\x1b[H\x1b[?25h\x1b[?1049l";
constexpr std::string_view begin_update = "\x1b[?2026h\x1b[?25l";
constexpr std::string_view end_update = "\x1b[?2026l";
constexpr std::array faults{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/// For the handler of faults, which finds nothing else.
struct Saved {
  volatile std::sig_atomic_t active = 0;
  int input = -1;
  termios modes{};
};
Saved saved;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

bool write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd ready{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
      if (poll(&ready, 1, 1000) <= 0) return false;
      continue;
    }
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// Async-signal-safe.
void restore_terminal() noexcept {
  if (saved.active == 0) return;
  saved.active = 0;
  static_cast<void>(write_all(to_normal_screen));
  tcsetattr(saved.input, TCSANOW, &saved.modes);
}

extern "C" void restore_and_die(int signal) {
  restore_terminal();
  raise(
      signal);  // its action is the default again (SA_RESETHAND), and this signal is blocked until the return
}

std::string_view sgr_of(Style style, bool colours) noexcept {
  switch (style) {
    case Style::plain:
      return "";
    case Style::strong:
      return "1";
    case Style::dim:
      return "2";
    case Style::heading:
      return colours ? "1;34" : "1";
    case Style::accent:
      return colours ? "36" : "1";
    case Style::good:
      return colours ? "32" : "";
    case Style::warn:
      return colours ? "33" : "1";
    case Style::bad:
      return colours ? "1;31" : "1";
  }
  return "";
}

std::string_view variable(const char* name) noexcept {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

posix::Descriptor open_keys() {
  // Opened, not inherited: O_NONBLOCK must not change the terminal of the shell, and stdin may be a pipe.
  return posix::Descriptor(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace

bool can_show_live() {
  const auto terminal = variable("TERM");
  if (isatty(STDOUT_FILENO) != 1 || terminal.empty() || terminal == "dumb") return false;
  const auto keys = open_keys();
  return keys && isatty(keys.get()) == 1;
}

bool shows_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(variable(name));
    if (value.empty()) continue;
    std::ranges::transform(value, value.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

Terminal::Terminal(bool colours) : input_(open_keys()), colours_(colours) {
  if (!input_) posix::throw_system_error("cannot open the terminal to read keys");
  saved.input = input_.get();
  posix::checked(tcgetattr(saved.input, &saved.modes), "cannot read the modes of the terminal");
  struct sigaction action{};
  action.sa_handler = restore_and_die;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int fault : faults) sigaction(fault, &action, nullptr);
  enter();
}

Terminal::~Terminal() {
  leave();
  for (const int fault : faults) std::signal(fault, SIG_DFL);
}

void Terminal::enter() {
  termios modes = saved.modes;
  // Keys at once and without echo; Ctrl-C, Ctrl-\ and Ctrl-Z stay signals.
  modes.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
  modes.c_iflag &= static_cast<tcflag_t>(~(IXON | ICRNL));
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  saved.active = 1;
  posix::checked(tcsetattr(input_.get(), TCSANOW, &modes), "cannot set the modes of the terminal");
  static_cast<void>(write_all(to_alternate_screen));
  forget();
}

void Terminal::leave() noexcept {
  restore_terminal();
}

Size Terminal::size() noexcept {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) return {};
  // Beyond that a size is a mistake, or an attack on our memory.
  return {.columns = std::clamp<std::size_t>(window.ws_col, 10, 1000),
          .lines = std::clamp<std::size_t>(window.ws_row, 3, 1000)};
}

bool Terminal::draw(const Frame& frame) {
  const auto now = size();
  std::string out(begin_update);
  if (!(now == drawn_size_) || drawn_.size() != frame.lines.size()) {
    drawn_.assign(frame.lines.size(), "\x1b");  // no line is this
    drawn_size_ = now;
    out += "\x1b[2J";
  }
  for (std::size_t i = 0; i < frame.lines.size(); ++i) {
    auto line = ansi(frame.lines[i], colours_);
    if (line == drawn_[i]) continue;
    out.append("\x1b[").append(std::to_string(i + 1)).append(";1H").append(line);
    // A full line must not be erased behind: its last column would be.
    if (frame.lines[i].columns() < now.columns) out += "\x1b[K";
    drawn_[i] = std::move(line);
  }
  if (frame.cursor) {
    out.append("\x1b[")
        .append(std::to_string(frame.cursor->first + 1))
        .append(";")
        .append(std::to_string(frame.cursor->second + 1))
        .append("H\x1b[?25h");
  }
  out += end_update;
  return write_all(out);
}

std::string ansi(const Line& line, bool colours) {
  std::string out;
  if (line.selected()) out += "\x1b[7m";
  for (const auto& span : line.spans()) {
    // Colours on a reversed line would be backgrounds.
    const auto sgr = line.selected() ? std::string_view() : sgr_of(span.style, colours);
    if (!sgr.empty()) out.append("\x1b[").append(sgr).append("m");
    out += span.text;
    if (!sgr.empty()) out += "\x1b[0m";
  }
  if (line.selected()) out += "\x1b[0m";
  return out;
}

}  // namespace holdfast::cli::top
