#include "process/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "process/job_control.hpp"
#include "process/stop_count.hpp"
#include "rpc/posix/descriptor.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

using posix::checked;
using posix::Descriptor;
using posix::throw_system_error;

Keeper Keeper::fork(const KeeperPlan& plan, const InheritedSignals& inherited) {
  std::array<int, 2> ends{};
  checked(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), "cannot create a socket pair");
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  const pid_t pid = checked(::fork(), "cannot start a process");
  if (pid == 0) {
    ours.reset();
    run_keeper(std::move(theirs), plan, inherited);
  }
  return {pid, std::move(ours)};
}

Keeper::~Keeper() {
  socket_.reset();
  constexpr int attempts = 1000;
  for (int i = 0; i < attempts && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

namespace {

std::string_view variable_name(std::string_view assignment) {
  return assignment.substr(0, assignment.find('='));
}

}  // namespace

std::string variable_with_nul(const std::vector<std::string>& environment) {
  const auto found = std::ranges::find_if(
      environment, [](const std::string& one) { return one.find('\0') != std::string::npos; });
  return found == environment.end() ? std::string() : printable(variable_name(*found));
}

void Keeper::start(BootTime deadline, const std::vector<std::string>& environment, bool give_terminal) {
  const KeeperOrder order{.kind = KeeperOrder::Kind::start,
                          .deadline_ns = deadline.time_since_epoch().count(),
                          .give_terminal = give_terminal};
  if (const auto name = variable_with_nul(environment); !name.empty()) {
    throw Error(
        ErrorCode::InvalidArgument,
        "the environment variable " + name + " of the command would contain a NUL byte, where it would end");
  }
  std::string packet(sizeof order, '\0');
  std::memcpy(packet.data(), &order, sizeof order);
  for (const auto& variable : environment) packet.append(variable.c_str(), variable.size() + 1);
  if (packet.size() > max_keeper_packet) {
    throw Error(ErrorCode::InvalidArgument,
                "the HOLDFAST_ environment variables of the command exceed 64 KiB");
  }
  if (::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) {
    throw_system_error("cannot send the start order to the process that supervises the command");
  }
}

void Keeper::send(const KeeperOrder& order) noexcept {
  // Without waiting: a keeper that does not read is stopped or stuck, and must not block us. It misses
  // renewals then, and without those it stops the command.
  ::send(socket_.get(), &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Keeper::Received Keeper::next() noexcept {
  KeeperReport report;
  const auto n = recv(socket_.get(), &report, sizeof report, MSG_DONTWAIT);
  if (n == static_cast<ssize_t>(sizeof report)) return {report, false};
  const bool not_yet = n < 0 && (errno == EAGAIN || errno == EINTR);
  return {std::nullopt, !not_yet};
}

void ignore_signals() noexcept {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    switch (signal) {
      case SIGCHLD:
      case SIGSEGV:
      case SIGBUS:
      case SIGFPE:
      case SIGILL:
      case SIGABRT:
      case SIGTRAP:
      case SIGSYS:
        std::signal(signal, SIG_DFL);
        break;
      default:
        std::signal(signal, SIG_IGN);
    }
  }
}

void sleep_until(BootTime time) noexcept {
  const auto at = time.time_since_epoch();
  const timespec until{.tv_sec = std::chrono::floor<std::chrono::seconds>(at).count(),
                       .tv_nsec = (at % std::chrono::seconds(1)).count()};
  while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

namespace {

using Order = KeeperOrder;
using Report = KeeperReport;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Between one KILL and the next, for what was forked or adopted meanwhile. Each wait is twice as long as the
/// one before: processes need time to end, and so does the rest of the machine.
constexpr nanoseconds first_kill_again = milliseconds(5);
constexpr nanoseconds last_kill_again = milliseconds(80);

BootTime boot_time(std::int64_t ns) noexcept {
  return BootTime(nanoseconds(ns));
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const auto& one : strings) result.push_back(const_cast<char*>(one.c_str()));  // execve changes nothing
  result.push_back(nullptr);
  return result;
}

/// This environment with `additions` in place of variables of the same name.
std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> result = additions;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    bool replaced = false;
    for (const auto& addition : additions) replaced |= variable_name(addition) == variable_name(*at);
    if (!replaced) result.emplace_back(*at);
  }
  return result;
}

/// Becomes `command`, found by PATH unless its name has a slash. Never through a shell: execvp would run a
/// script without `#!` by /bin/sh. Returns only on failure, with the errno.
int execute(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const auto merged = merged_environment(environment);
  const auto arguments = pointers(command);
  const auto variables = pointers(merged);
  const std::string& name = command.front();
  if (name.empty()) return ENOENT;
  if (name.find('/') != std::string::npos) {
    execve(name.c_str(), arguments.data(), variables.data());
    return errno;
  }

  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  int failure = ENOENT;
  while (true) {
    const auto end = rest.find(':');
    const auto directory = rest.substr(0, end);
    const auto file = directory.empty() ? name : std::string(directory) + "/" + name;
    execve(file.c_str(), arguments.data(), variables.data());
    // A directory without it, or that cannot be searched, is skipped; a file that cannot be run decides
    // unless a later directory has one that can.
    if (errno == EACCES) {
      failure = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      return errno;
    }
    if (end == std::string_view::npos) return failure;
    rest.remove_prefix(end + 1);
  }
}

class KeeperProcess {
 public:
  KeeperProcess(Descriptor socket, const KeeperPlan& plan, const InheritedSignals& inherited) noexcept
      : socket_(std::move(socket)), plan_(plan), inherited_(inherited) {}

  [[noreturn]] void run() {
    prepare();
    while (true) {
      wait();
      reap();
      read_exec_result();
      read_orders();
      decide();
    }
  }

 private:
  enum class Phase {
    idle,         ///< the lock is not held yet
    running,      ///< the command runs
    terminating,  ///< TERM was sent
    killing,      ///< KILL is sent repeatedly until no process is left
  };

  void prepare() {
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "holdfast-keeper");
    ignore_signals();
    const auto child = signal_set({SIGCHLD});
    sigprocmask(SIG_SETMASK, &child, nullptr);
    children_ = Descriptor(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    timer_ = Descriptor(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!children_ || !timer_) _exit(1);  // holdfast sees the end of file
  }

  /// Until something happens. The timer runs on the boot clock: after a suspend it is due at once.
  void wait() {
    itimerspec at{};
    if (const auto wake = next_wake(); wake != never) {
      const auto ns = std::max(wake.time_since_epoch(), nanoseconds(1));
      at.it_value.tv_sec = std::chrono::floor<std::chrono::seconds>(ns).count();
      at.it_value.tv_nsec = (ns % std::chrono::seconds(1)).count();
    }
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
    // poll passes over negative descriptors: those of what has ended.
    std::array<pollfd, 4> watched{{{socket_.get(), POLLIN, 0},
                                   {children_.get(), POLLIN, 0},
                                   {timer_.get(), POLLIN, 0},
                                   {exec_.get(), POLLIN, 0}}};
    poll(watched.data(), watched.size(), -1);
    signalfd_siginfo ignored{};
    while (read(children_.get(), &ignored, sizeof ignored) > 0) {
    }
  }

  BootTime next_wake() noexcept {
    switch (phase_) {
      case Phase::idle:
        return never;
      case Phase::running: {
        if (!late_) return deadline_ - plan_.times.late;
        // By then, all that are late at the same time have been counted.
        const auto counted_at = deadline_ - plan_.times.earliest_kill;
        const auto stop_at = term_at();
        return BootClock::now() < counted_at ? std::min(counted_at, stop_at) : stop_at;
      }
      case Phase::terminating:
        return kill_at_;
      case Phase::killing:
        return kill_again_at_;
    }
    return never;
  }

  BootTime term_at() noexcept { return deadline_ - plan_.times.term(stop_count_.total()); }

  void read_orders() {
    while (socket_) {
      const auto n = recv(socket_.get(), packet_.get(), max_keeper_packet, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n < static_cast<ssize_t>(sizeof(Order))) {
        holdfast_is_dead();
        return;
      }
      Order order;
      std::memcpy(&order, packet_.get(), sizeof order);
      carry_out(order, {packet_.get() + sizeof order, static_cast<std::size_t>(n) - sizeof order});
    }
  }

  void carry_out(const Order& order, std::string_view extra) {
    switch (order.kind) {
      case Order::Kind::start:
        deadline_ = boot_time(order.deadline_ns);
        start(extra, order.give_terminal);
        break;
      case Order::Kind::new_deadline:
        // Stopping is final: the command may have half shut down.
        if (phase_ == Phase::running) renewed_until(boot_time(order.deadline_ns));
        break;
      case Order::Kind::signal:
        signal_command(order.signal);
        break;
      case Order::Kind::stop:
        if (phase_ == Phase::running) begin_stop(Report::Cause::ordered);
        break;
    }
  }

  void holdfast_is_dead() {
    socket_.reset();
    if (phase_ == Phase::idle) _exit(0);
    if (phase_ == Phase::running) begin_stop(Report::Cause::ordered);
  }

  void start(std::string_view extra, bool give_terminal) {
    std::vector<std::string> environment;
    while (!extra.empty()) {
      const auto end = extra.find('\0');
      environment.emplace_back(extra.substr(0, end));
      extra.remove_prefix(std::min(end, extra.size() - 1) + 1);
    }
    if (term_at() <= BootClock::now()) {  // delayed for so long that the lease is about to expire
      status_ = 0;
      cause_ = Report::Cause::deadline;
      report_end();
    }
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) exec_failed(errno);
    exec_ = Descriptor(ends[0]);
    Descriptor child_end(ends[1]);
    const pid_t self = getpid();
    // The child ignores signals until it has restored the caller's dispositions. A signal that is forwarded
    // meanwhile would be lost; blocked, it stays pending.
    sigset_t before;
    sigprocmask(SIG_SETMASK, nullptr, &before);
    block_all_signals();
    command_ = fork();
    if (command_ < 0) exec_failed(errno);
    if (command_ == 0) become_command(child_end, environment, give_terminal, self);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    setpgid(command_, command_);  // in the child too: the group must exist for both
    phase_ = Phase::running;
    child_end.reset();
    close_inherited_descriptors();
  }

  /// The command's own descriptors have numbers below this.
  static constexpr int first_of_ours = 10;

  [[noreturn]] void become_command(Descriptor& report, const std::vector<std::string>& environment,
                                   bool give_terminal, pid_t keeper) {
    setpgid(0, 0);
    if (give_terminal) {
      if (const auto terminal = ControllingTerminal::open()) terminal->give_to(getpid());
    }
    // For the case that keeper and holdfast are killed together; it reaches no grandchild. The keeper has one
    // thread, so the forking thread's death is the keeper's.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(exit_killed);
    if (!plan_.redirections.empty()) {
      // Above the redirections. If no descriptor is left, the end of file still reports the failure.
      report = Descriptor(fcntl(report.get(), F_DUPFD_CLOEXEC, first_of_ours));
      for (const auto& [from, to] : plan_.redirections) {
        if (dup2(from, to) < 0) fail_to_execute(report, errno);
      }
    }
    inherited_.restore();
    const int error = execute(plan_.command, environment);
    fail_to_execute(report, error);
  }

  [[noreturn]] static void fail_to_execute(const Descriptor& report, int error) {
    [[maybe_unused]] const auto n = write(report.get(), &error, sizeof error);
    _exit(exit_killed);
  }

  /// A pipe of the caller must end when the command closes it, not when the keeper does. Standard error
  /// stays, for the last message.
  void close_inherited_descriptors() const noexcept {
    std::array<int, 6> kept{STDERR_FILENO, socket_.get(), children_.get(),
                            timer_.get(),  exec_.get(),   plan_.kept_open};
    std::ranges::sort(kept);
    unsigned next = 0;
    for (const int fd : kept) {
      if (fd < 0) continue;
      const auto keep = static_cast<unsigned>(fd);
      if (keep > next) close_range(next, keep - 1, 0);
      next = keep + 1;
    }
    close_range(next, ~0U, 0);
  }

  void read_exec_result() {
    if (!exec_) return;
    int error = 0;
    const auto n = read(exec_.get(), &error, sizeof error);
    if (n < 0 && errno == EAGAIN) return;
    exec_.reset();
    if (n == static_cast<ssize_t>(sizeof error)) exec_failed(error);
    send({.kind = Report::Kind::started, .value = command_});
  }

  [[noreturn]] void exec_failed(int error) {
    send({.kind = Report::Kind::exec_failed, .value = error});
    _exit(0);
  }

  /// Reaps the command, and orphans among its descendants.
  void reap() {
    int status = 0;
    while (true) {
      const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
      childless_ = pid < 0 && errno == ECHILD;
      if (pid <= 0) return;
      if (pid != command_) continue;
      if (WIFSTOPPED(status)) {
        // It can stop before the result of its exec is read; holdfast needs its pid to continue it.
        if (exec_) send({.kind = Report::Kind::started, .value = command_});
        send({.kind = Report::Kind::stopped, .value = WSTOPSIG(status)});
      } else {
        status_ = status;
      }
    }
  }

  void decide() {
    const auto now = BootClock::now();
    if (phase_ == Phase::running && status_ && !exec_) report_end();
    if (phase_ == Phase::running && !late_ && now >= deadline_ - plan_.times.late) lease_is_late();
    if (phase_ == Phase::running && now >= term_at()) begin_stop(Report::Cause::deadline);
    if (phase_ == Phase::terminating || phase_ == Phase::killing) {
      // A subreaper is the parent of every orphan among its descendants, so without a child there is no
      // descendant. A death wakes this process, so it need not look for the others until KILL.
      if (childless_) {
        survivors_ = {};
        report_end();
      }
      if (BootClock::now() >= kill_at_) kill_all();
    }
  }

  /// Its renewal was due a sixth of the lease ago: what may have to be stopped is counted while there is
  /// time.
  void lease_is_late() {
    late_ = true;
    count_processes();
    send({.kind = Report::Kind::late, .deadline_ns = deadline_.time_since_epoch().count()});
  }

  void renewed_until(BootTime deadline) {
    deadline_ = deadline;
    if (late_) stop_count_.set(0);
    late_ = false;
  }

  void count_processes() {
    const auto checked = descendants_.signal({}, command_);
    stop_count_.set(to_be_stopped(checked));
  }

  void begin_stop(Report::Cause cause) {
    cause_ = cause;
    phase_ = Phase::terminating;
    const auto now = BootClock::now();
    kill_at_ = std::min(now + plan_.times.grace, deadline_ - plan_.times.kill(stop_count_.total()));
    if (now < kill_at_) {
      // Once: processes that a dying command starts in order to clean up are left alone until KILL.
      const auto left = descendants_.signal({SIGTERM, SIGCONT}, command_);
      if (left.all_seen) stop_count_.set(static_cast<unsigned>(left.living));
      if (left.beyond_reach > 0) send({.kind = Report::Kind::survivors, .survivors = survivors_of(left)});
    }
    send({.kind = Report::Kind::stopping});
  }

  void kill_all() {
    const auto now = BootClock::now();
    if (phase_ == Phase::killing && now < kill_again_at_) return;
    phase_ = Phase::killing;
    const auto left = descendants_.signal({SIGKILL}, command_);
    survivors_ = survivors_of(left);
    if (left.all_beyond_reach()) report_end();
    // No process can be found any more, and from here on there may be another holder.
    if (survivors_.unlisted && now >= deadline_) report_end();
    kill_again_at_ = BootClock::now() + kill_again_;
    kill_again_ = std::min(2 * kill_again_, last_kill_again);
  }

  void signal_command(int signal) const noexcept {
    if (command_ <= 0 || status_) return;
    if (kill(-command_, signal) != 0 && errno == EPERM) {
      send({.kind = Report::Kind::refused, .value = signal});
    }
  }

  void send(const Report& report) const noexcept {
    // holdfast may be stopped and read later: the few reports fit the socket's buffer.
    if (socket_) ::send(socket_.get(), &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  [[noreturn]] void report_end() {
    // If this process was stopped or suspended, the command may have run on past its lease.
    if (cause_ == Report::Cause::none && BootClock::now() >= deadline_) cause_ = Report::Cause::deadline;
    send({.kind = Report::Kind::exited,
          .value = status_.value_or(0),
          .cause = cause_,
          .survivors = survivors_,
          .deadline_ns = deadline_.time_since_epoch().count()});
    if (!socket_) {
      give_terminal_back();
      complain(
          "the holdfast process died; " +
              (survivors_.any() ? describe(survivors_) : "its command was stopped before the lease expired"),
          {.event = "holdfast_died", .level = LogSeverity::error});
      // What is kept open says that the work may go on.
      if (survivors_.any() && plan_.kept_open >= 0) sleep_until(deadline_);
    }
    _exit(0);
  }

  /// For the dead holdfast: a dead group in the foreground would swallow the next Ctrl-C.
  void give_terminal_back() const {
    const auto terminal = ControllingTerminal::open();
    if (terminal && terminal->foreground() == command_) terminal->give_to(callers_group_);
  }

  static constexpr int exit_killed = 70;

  Descriptor socket_;
  Descriptor children_;
  Descriptor timer_;
  Descriptor exec_;  ///< open until the command has been executed
  /// Not zeroed: its 16 pages would be touched in every keeper, and most packets are short.
  std::unique_ptr<char[]> packet_ = std::make_unique_for_overwrite<char[]>(max_keeper_packet);
  const KeeperPlan& plan_;
  const InheritedSignals& inherited_;
  Phase phase_ = Phase::idle;
  BootTime deadline_ = never;
  BootTime kill_at_ = never;
  BootTime kill_again_at_ = never;
  nanoseconds kill_again_ = first_kill_again;
  bool late_ = false;
  StopCount stop_count_;
  Descendants descendants_;
  pid_t callers_group_ = getpgrp();
  pid_t command_ = 0;
  std::optional<int> status_;
  bool childless_ = false;
  Survivors survivors_;
  Report::Cause cause_ = Report::Cause::none;
};

}  // namespace

void run_keeper(Descriptor socket, const KeeperPlan& plan, const InheritedSignals& inherited) noexcept {
  KeeperProcess(std::move(socket), plan, inherited).run();
}

}  // namespace holdfast::cli
