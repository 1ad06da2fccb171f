#include "supervision/supervisor.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <stop_token>
#include <thread>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

/// In a pipeline another member of the job may need the terminal (`holdfast run k -- list | less`), so there
/// the command gets it only on demand, when it was stopped for reading or setting it.
bool is_pipe(int fd) noexcept {
  struct stat file{};
  return fstat(fd, &file) == 0 && (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode));
}

/// As the keeper does.
constexpr nanoseconds first_kill_again = milliseconds(5);
constexpr nanoseconds last_kill_again = milliseconds(80);

}  // namespace

Supervisor::Supervisor(Guard& guard, Keeper& keeper, SignalQueue& signals,
                       const ControllingTerminal* terminal, Settings settings)
    : guard_(guard),
      keeper_(keeper),
      signals_(signals),
      terminal_(terminal),
      settings_(std::move(settings)),
      loss_(posix::make_eventfd()),
      gives_terminal_(terminal != nullptr && !is_pipe(STDIN_FILENO) && !is_pipe(STDOUT_FILENO)) {}

CommandEnd Supervisor::run(const std::vector<std::string>& environment) {
  const auto wake_up = [fd = loss_.get()] { eventfd_write(fd, 1); };
  const std::stop_callback on_loss(guard_.lost(), wake_up);
  const std::stop_callback on_cancel(settings_.cancelled, wake_up);
  announced_deadline_ = proven_until();
  keeper_.start(announced_deadline_, environment, gives_terminal_ && in_foreground());
  std::optional<CommandEnd> ending;
  while (!ending) {
    wait_for_event();
    ending = follow_keeper();
    if (ending) break;
    follow_signals();
    follow_lease();
    // For any reason: a keeper that is stopped or stuck shows only by this time having passed.
    if (const auto now = BootClock::now(); now >= keeper_is_overdue_at())
      ending = stop_without_keeper(CommandEnd::Kind::lost, stopping_ ? now : now + settings_.times.grace);
  }
  if (verification_.valid()) verification_.wait();  // it uses the caller's guard
  if (terminal_ != nullptr && command_ > 0 && terminal_->foreground() == command_) {
    terminal_->give_to(getpgrp());
    if (ending->kind == CommandEnd::Kind::lost || ending->kind == CommandEnd::Kind::keeper_died) {
      terminal_->restore_modes();
    }
  }
  return *ending;
}

void Supervisor::wait_for_event() {
  // Once the keeper stops the command, only its end counts. Before, renewals come every ttl/3 without a
  // notification; polling four times as often reports each to the keeper long before it would act (at 2/3 of
  // the ttl or later). A late one must reach it without delay.
  const bool renewal_is_late = guard_.remaining() < nanoseconds(settings_.ttl) * 7 / 12;
  const auto usual =
      keeper_stops_ ? nanoseconds::max()
                    : std::max<nanoseconds>(settings_.ttl / (renewal_is_late ? 96 : 12), milliseconds(1));
  const auto interval =
      std::clamp<nanoseconds>(keeper_is_overdue_at() - BootClock::now(), milliseconds(1), usual);
  const int timeout = static_cast<int>(std::min<std::int64_t>(
      std::chrono::ceil<milliseconds>(interval).count(), milliseconds(std::chrono::hours(1)).count()));
  std::array<pollfd, 3> watched{{{keeper_.descriptor(), POLLIN, 0},
                                 {signals_.descriptor(), POLLIN, 0},
                                 {stopping_ ? -1 : loss_.get(), POLLIN, 0}}};
  poll(watched.data(), watched.size(), timeout);
}

BootTime Supervisor::proven_until() const noexcept {
  // The clock first: a deadline too early is safe, one too late is not.
  const auto now = BootClock::now();
  return now + guard_.remaining();
}

void Supervisor::follow_lease() {
  if (stopping_) return;
  if (guard_.lost().stop_requested() || settings_.cancelled.stop_requested()) {
    stop_command();
    return;
  }
  const auto deadline = proven_until();
  if (deadline > announced_deadline_ + milliseconds(1)) {
    keeper_.send(
        {.kind = KeeperOrder::Kind::new_deadline, .deadline_ns = deadline.time_since_epoch().count()});
    announced_deadline_ = deadline;
    stop_count_.set(0);
  }
  replace_silent_keeper_in_count();
}

/// A keeper that runs reports that the lease is late, and has counted the command's processes.
void Supervisor::replace_silent_keeper_in_count() {
  const nanoseconds patience = (settings_.times.late - settings_.times.earliest_kill) / 2;
  if (counted_for_ == announced_deadline_ || reported_late_ == announced_deadline_) return;
  if (BootClock::now() < announced_deadline_ - settings_.times.late + patience) return;
  counted_for_ = announced_deadline_;
  const auto checked = descendants_.signal({}, command_, settings_.foreign_children);
  stop_count_.set(to_be_stopped(checked));
}

void Supervisor::stop_command() {
  stopping_ = true;
  keeper_.send({.kind = KeeperOrder::Kind::stop});
  // The lock may have another holder already, so the rest of the lease does not count: only the grace does.
  stopped_by_ = BootClock::now() + settings_.times.grace + settings_.times.margin;
}

/// A keeper that has reported the late lease runs. Then this process steps in when half of the time that
/// stopping takes is left: waiting for the guard's loss would be too late, because the lease is as good as
/// expired then. One that has not is stopped or stuck, so this process stops the command at the keeper's
/// times.
BootTime Supervisor::keeper_is_overdue_at() noexcept {
  const auto& times = settings_.times;
  const bool runs = keeper_stops_ || reported_late_ == announced_deadline_;
  const auto total = stop_count_.total();
  const nanoseconds before = runs ? times.kill(total) / 2 : times.term(total);
  return std::min(announced_deadline_ - before, stopped_by_);
}

void Supervisor::follow_signals() {
  while (const auto signal = signals_.take()) {
    if (*signal == SIGCONT) {
      continued();
    } else {
      keeper_.send({.kind = KeeperOrder::Kind::signal, .signal = *signal});
    }
  }
}

std::optional<CommandEnd> Supervisor::follow_keeper() {
  while (true) {
    const auto [report, dead] = keeper_.next();
    if (dead)
      return stop_without_keeper(CommandEnd::Kind::keeper_died, BootClock::now() + settings_.times.grace);
    if (!report) return std::nullopt;
    switch (report->kind) {
      case KeeperReport::Kind::started:
        command_ = report->value;
        break;
      case KeeperReport::Kind::exec_failed:
        return CommandEnd{.kind = CommandEnd::Kind::exec_failed, .value = report->value};
      case KeeperReport::Kind::stopped:
        command_stopped(report->value);
        break;
      case KeeperReport::Kind::refused:
        settings_.on_refused_signal(report->value);
        break;
      case KeeperReport::Kind::late:
        reported_late_ = BootTime(nanoseconds(report->deadline_ns));
        break;
      case KeeperReport::Kind::stopping:
        keeper_stops_ = true;
        break;
      case KeeperReport::Kind::survivors:
        settings_.on_survivors(report->survivors);
        break;
      case KeeperReport::Kind::exited: {
        const bool by_itself = report->cause == KeeperReport::Cause::none;
        return CommandEnd{.kind = by_itself ? CommandEnd::Kind::exited : CommandEnd::Kind::lost,
                          .value = report->value,
                          .survivors = report->survivors,
                          .proven_until = BootTime(nanoseconds(report->deadline_ns))};
      }
    }
  }
}

bool Supervisor::in_foreground() const noexcept {
  return terminal_ != nullptr && terminal_->foreground() == getpgrp();
}

/// A stop from the terminal is meant for the whole job, so this process stops as well, and with it the
/// renewal. After a SIGSTOP to the command alone, or a stop without a terminal, the lock is kept: the sender
/// may continue the command.
void Supervisor::command_stopped(int signal) {
  const bool by_terminal = signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
  if (terminal_ == nullptr || !by_terminal || stopping_) return;

  if (in_foreground() && signal != SIGTSTP) {  // it needs the terminal, and our job has it
    terminal_->give_to(command_);
    keeper_.send({.kind = KeeperOrder::Kind::signal, .signal = SIGCONT});
    return;
  }
  const bool had_terminal = terminal_->foreground() == command_;
  if (had_terminal) terminal_->give_to(getpgrp());
  const bool in_front = had_terminal || in_foreground();
  stop_by(signal, had_terminal);
  // Here we have been continued, and SIGCONT is queued. Without it we were not stopped at all (an orphaned
  // group cannot be): then no shell will continue the command, so we do.
  bool woken = false;
  while (const auto next = signals_.take()) {
    if (*next == SIGCONT) {
      woken = true;
    } else {
      keeper_.send({.kind = KeeperOrder::Kind::signal, .signal = *next});
    }
  }
  if (woken || in_front) continued();
}

/// After a stop the command goes on only if the lease is still valid: it was not renewed meanwhile. The whole
/// group is continued, whether or not the command itself was seen to stop: a member may be stopped alone (a
/// shell in vfork cannot stop while it waits for its stopped child, so no stop is ever reported).
void Supervisor::continued() {
  if (stopping_) return;
  if (!verify_lease()) {
    stop_command();
    return;
  }
  follow_lease();
  if (gives_terminal_ && command_ > 0 && in_foreground()) terminal_->give_to(command_);
  keeper_.send({.kind = KeeperOrder::Kind::signal, .signal = SIGCONT});
}

bool Supervisor::verify_lease() {
  // On another thread: an engine that does not answer holds a request until the lease has expired, and by
  // then the command has to be gone.
  while (guard_.still_held() && BootClock::now() < keeper_is_overdue_at()) {
    try {
      verification_ = std::async(std::launch::async, [this] { return guard_.extend(settings_.ttl); });
      while (verification_.wait_for(milliseconds(5)) != std::future_status::ready) {
        if (BootClock::now() >= keeper_is_overdue_at()) return false;
      }
      return verification_.get();
    } catch (const std::exception&) {
      // The engine failed, or no thread could be started. Until the old lease expires, retry.
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
  return false;
}

/// The keeper is dead or does not react, so the command's processes are descendants of this one, which is a
/// subreaper too. TERM first if there is time until `kill_at`.
CommandEnd Supervisor::stop_without_keeper(CommandEnd::Kind kind, BootTime kill_at) {
  ::kill(keeper_.pid(), SIGKILL);
  // Not waited for: it may be stuck in the kernel. Until it is reaped below it stays in the list, and so do
  // its children.
  const auto& spared = settings_.foreign_children;
  // Again and again: when many lose their keepers at the same time, none has counted its processes yet.
  const auto hurry = [&] {
    kill_at = std::min(kill_at, announced_deadline_ - settings_.times.kill(stop_count_.total()));
  };
  hurry();
  if (BootClock::now() < kill_at) {
    const auto left = descendants_.signal({SIGTERM, SIGCONT}, command_, spared);
    stop_count_.set(to_be_stopped(left));
    if (left.beyond_reach > 0) settings_.on_survivors(survivors_of(left));
  }
  int blind_kills = 0;
  nanoseconds again = first_kill_again;
  while (true) {
    hurry();
    const auto now = BootClock::now();
    const bool kill_now = now >= kill_at;
    const auto left = kill_now ? descendants_.signal({SIGKILL}, command_, spared)
                               : descendants_.signal({}, command_, spared);
    // Without children there are no descendants, whatever is visible. With foreign children only the list
    // tells; without a list the command may still run, so this process stays, and with it the lock.
    if (reap_children()) return {.kind = kind};
    const bool done =
        left.all_seen && left.living == 0 && left.unburied == 0 && (kill_now || left.beyond_reach == 0);
    if (done && (left.beyond_reach > 0 || !spared.empty())) {
      return {.kind = kind, .survivors = survivors_of(left)};
    }
    // The first kill may still take effect.
    if (kill_now && !left.all_seen && ++blind_kills == 2) settings_.on_survivors(survivors_of(left));
    sleep_until_child_ends(
        kill_now ? BootClock::now() + again : std::min(kill_at, now + settings_.times.margin / 2), spared);
    if (kill_now) again = std::min(2 * again, last_kill_again);
  }
}

}  // namespace holdfast::cli
