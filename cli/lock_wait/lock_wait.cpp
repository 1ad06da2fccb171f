#include "lock_wait/lock_wait.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cstdlib>
#include <holdfast/memory.hpp>
#include <string_view>

#include "arguments/values.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

using std::chrono::milliseconds;

namespace {

constexpr const char* deadlock_warning =
    " This command runs under another lock. If the holder waits for that one, neither wait ever ends: use -w "
    "DURATION, and acquire several locks in the same order everywhere";

bool in_enclosing_run() noexcept {
  const char* chain = std::getenv("HOLDFAST_CHAIN");
  return chain != nullptr && *chain != '\0';
}

}  // namespace

InterruptibleWait::InterruptibleWait(SignalQueue& signals, Announce announce, LogFields fields)
    : signals_(signals),
      announces_(announce == Announce::always || announce == Announce::always_as_nested ||
                 (announce == Announce::on_a_terminal && (logs_json() || isatty(STDERR_FILENO) == 1))),
      nested_(announce == Announce::always_as_nested),
      fields_(std::move(fields)),
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
      if (stage_ == Stage::waiting) {
        complain("waiting for " + name_ + " ..." + (nested_ ? deadlock_warning : ""),
                 {.event = "waiting", .fields = fields_});
      }
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

void WaitOptions::add_to(Command command) {
  const auto none =
      command.add_flag("-n,--no-wait", no_wait, "Do not wait: exit 75 at once if the lock is held");
  command
      .add_option("-w,--wait DURATION", wait,
                  "Wait at most this long (0: same as -n). Default: " +
                      (by_default == no_time_limit ? std::string("no limit") : describe(by_default)))
      .excludes(none);
}

void WaitOptions::add_verbose_to(Command command, const std::string& help) {
  command.add_flag("--verbose", verbose, help);
}

void WaitOptions::add_conflict_exit_code_to(Command command, const std::string& help) {
  command.add_option("-E,--conflict-exit-code N", conflict_exit_code, help).between(0, 255);
}

milliseconds WaitOptions::length() const {
  if (no_wait) return milliseconds::zero();
  return wait ? parse_duration("--wait", *wait) : by_default;
}

Announce WaitOptions::announce(Announce otherwise) const noexcept {
  const bool unlimited = !no_wait && !wait && by_default == no_time_limit;
  if (quiet && !verbose) return Announce::never;
  if (unlimited && in_enclosing_run()) return Announce::always_as_nested;
  return verbose ? Announce::always : otherwise;
}

LockWording LockWording::lock(const std::string& key) {
  const auto name = named_key(key);
  return {.key = key,
          .name = name,
          .noun = "the lock " + name,
          .running = "under the lock " + name,
          .held = name + " is already held",
          .held_by = name + " is held by ",
          .held_by_run = name +
                         " is already held by the `holdfast run` that started this command; waiting would "
                         "never end. Run the command directly, or use another key",
          .log_fields = {key_field(key)}};
}

LockWording LockWording::task(const std::string& id, const std::string& key) {
  const auto name = "the task " + quote(id);
  return {.key = key,
          .name = name,
          .noun = name,
          .running = "as " + name,
          .held = name + " is already claimed",
          .held_by = name + " is claimed by ",
          .held_by_run = name +
                         " is the task that this command runs as; waiting would never end. Run the command "
                         "directly, or as another task",
          .log_fields = {{.name = "task_id", .value = id}}};
}

AcquireRefusal refusal_of(const Locks& locks, const LockWording& wording, milliseconds waited,
                          const std::stop_token& stop) {
  AcquireRefusal refusal{.message = wording.held, .holder = {}};
  auto& [message, holder] = refusal;
  try {
    if (const auto held = locks.get_by_key(wording.key, stop)) {
      if (held->holder) {
        holder = held->holder->str();
        message = wording.held_by + printable(holder);
      }
      message += " (lease " + describe(time_until(held->expires_at)) + ")";
    }
  } catch (const Error&) {  // the message does without
  }
  message += waited > milliseconds::zero()
                 ? "; gave up after " + describe(waited) + ". Use -w DURATION to wait longer"
                 : ". Omit -n to wait, or use -w DURATION";
  return refusal;
}

std::string name_with_holder(const std::string& name, const Error& held) {
  return held.holder().empty() ? name : name + ", held by " + printable(held.holder()) + ",";
}

bool held_by_enclosing_run(const Locks& locks, const std::string& key, const std::stop_token& stop) {
  if (!in_enclosing_run()) return false;
  const char* chain = std::getenv("HOLDFAST_CHAIN");
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

void warn_of_private_locks(const Locks& locks) {
  if (locks.capabilities().backend == memory_capabilities.backend) {
    complain(
        "warning: memory: is private to this process, so the lock excludes no other process; use "
        "sqlite:PATH");
  }
}

}  // namespace holdfast::cli
