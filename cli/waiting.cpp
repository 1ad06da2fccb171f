#include "waiting.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "duration.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "system_error.hpp"

namespace holdfast::cli {

using std::chrono::milliseconds;

void Patience::add_waits_to(Command command) {
  const auto none =
      command.add_flag("-n,--no-wait", no_wait, "Do not wait: exit 75 at once if somebody holds the lock");
  command
      .add_option(
          "-w,--wait", wait,
          "Wait this long at most (0: as -n). Default: " +
              (by_default == no_time_limit ? std::string("as long as it takes") : describe(by_default)))
      .value_name("DURATION")
      .excludes(none);
}

void Patience::add_to(Command command) {
  add_waits_to(command);
  command.add_flag("--verbose", verbose, "Say on stderr what is being waited for, not only on a terminal");
}

milliseconds Patience::length() const {
  if (no_wait) return milliseconds::zero();
  return wait ? parse_duration("--wait", *wait) : by_default;
}

InterruptibleWait::InterruptibleWait(SignalQueue& signals, Saying saying)
    : signals_(signals),
      says_(saying == Saying::always || (saying == Saying::on_a_terminal && isatty(STDERR_FILENO) == 1)),
      changed_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "cannot make an eventfd")),
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
      if (stage_ == Stage::waiting && says_) timeout = 1000;
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

std::string not_acquired_message(Locks& locks, const Subject& subject, milliseconds waited,
                                 const std::stop_token& stop) {
  std::string message = subject.taken;
  try {
    if (const auto holder = locks.get_by_key(subject.key, stop)) {
      message += ", for " + describe(time_until(holder->expires_at_ms)) + " more unless it is renewed";
    }
  } catch (const Error&) {  // only a nicety is missing
  }
  if (waited > milliseconds::zero()) {
    return message + "; gave up after " + describe(waited) + ". Use -w DURATION to wait longer";
  }
  return message + "; leave out -n to wait for it, or use -w DURATION instead";
}

bool held_by_enclosing_run(Locks& locks, const std::string& key, const std::stop_token& stop) {
  const char* chain = std::getenv("HOLDFAST_CHAIN");
  if (chain == nullptr || *chain == '\0') return false;
  const auto holder = locks.get_by_key_raw(key, stop);
  if (!holder) return false;
  std::string_view rest = chain;
  while (!rest.empty()) {
    const auto end = rest.find(' ');
    if (rest.substr(0, end) == holder->id.str()) return true;
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return false;
}

}  // namespace holdfast::cli
