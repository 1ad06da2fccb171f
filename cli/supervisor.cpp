#include "supervisor.hpp"

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

#include "system_error.hpp"

namespace holdfast::cli {

using keeper_protocol::Report;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

/// In a pipeline the other members of our job may want the terminal (`holdfast run k -- list | less`), so
/// there the command gets it only when it asks, by being stopped for reading or setting it.
bool is_pipe(int fd) noexcept {
  struct stat file{};
  return fstat(fd, &file) == 0 && (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode));
}

}  // namespace

Supervisor::Supervisor(Guard& guard, Keeper& keeper, SignalQueue& signals, const Terminal* terminal,
                       Settings settings)
    : guard_(guard),
      keeper_(keeper),
      signals_(signals),
      terminal_(terminal),
      settings_(std::move(settings)),
      loss_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "cannot make an eventfd")),
      gives_terminal_(terminal != nullptr && !is_pipe(STDIN_FILENO) && !is_pipe(STDOUT_FILENO)) {}

Ending Supervisor::run(const std::vector<std::string>& environment) {
  const auto wake_up = [fd = loss_.get()] { eventfd_write(fd, 1); };
  const std::stop_callback on_loss(guard_.lost(), wake_up);
  const std::stop_callback on_call_off(settings_.called_off, wake_up);
  told_ = proven_until();
  keeper_.start(told_, environment, gives_terminal_ && in_foreground());
  std::optional<Ending> ending;
  while (!ending) {
    wait_for_something();
    ending = follow_keeper();
    if (ending) break;
    follow_signals();
    follow_lease();
    // Not asking why: a keeper that is stopped or stuck shows only in this time having come.
    if (const auto now = BootClock::now(); now >= overdue())
      ending = end_it_ourselves(Ending::Kind::lost, now);
  }
  if (verification_.valid()) verification_.wait();  // the guard is the caller's alone again
  if (terminal_ != nullptr && command_ > 0 && terminal_->foreground() == command_) {
    terminal_->give_to(getpgrp());
    if (ending->kind == Ending::Kind::lost || ending->kind == Ending::Kind::keeper_died) {
      terminal_->restore_modes();
    }
  }
  return *ending;
}

void Supervisor::wait_for_something() const {
  // Renewals come every ttl/3 without a sound; looking four times as often tells the keeper of each long
  // before it would act (at 2/3 of the ttl or later). One that is late must reach it without delay.
  const bool renewal_is_late = guard_.remaining() < nanoseconds(settings_.ttl) * 7 / 12;
  const auto usual = std::max<nanoseconds>(settings_.ttl / (renewal_is_late ? 96 : 12), milliseconds(1));
  const auto patience = std::clamp<nanoseconds>(overdue() - BootClock::now(), milliseconds(1), usual);
  const int timeout = static_cast<int>(std::min<std::int64_t>(
      std::chrono::ceil<milliseconds>(patience).count(), milliseconds(std::chrono::hours(1)).count()));
  std::array<pollfd, 3> watched{{{keeper_.descriptor(), POLLIN, 0},
                                 {signals_.descriptor(), POLLIN, 0},
                                 {ending_ ? -1 : loss_.get(), POLLIN, 0}}};
  poll(watched.data(), watched.size(), timeout);
}

BootTime Supervisor::proven_until() const noexcept {
  // The clock first: a deadline too early is safe, one too late is not.
  const auto now = BootClock::now();
  return now + guard_.remaining();
}

void Supervisor::follow_lease() {
  if (ending_) return;
  if (guard_.lost().stop_requested() || settings_.called_off.stop_requested()) {
    end_command();
    return;
  }
  const auto deadline = proven_until();
  if (deadline > told_ + milliseconds(1)) {
    keeper_.new_deadline(deadline);
    told_ = deadline;
  }
}

void Supervisor::end_command() {
  ending_ = true;
  keeper_.kill();
  // Somebody else may have the lock already, so the rest of the lease does not count: only the grace does.
  kill_obeyed_by_ = BootClock::now() + settings_.grace + settings_.margin;
}

/// The keeper kills at `told_ - margin`. Half of the margin is left for it to succeed, half for us: the loss
/// of the guard would be too late a sign, because it comes when the proof is as good as over.
BootTime Supervisor::overdue() const noexcept {
  return std::min(told_ - settings_.margin / 2, kill_obeyed_by_);
}

void Supervisor::follow_signals() {
  while (const auto signal = signals_.take()) {
    if (*signal == SIGCONT) {
      continued();
    } else {
      keeper_.signal(*signal);
    }
  }
}

std::optional<Ending> Supervisor::follow_keeper() {
  while (true) {
    const auto [report, dead] = keeper_.next();
    if (dead) return end_it_ourselves(Ending::Kind::keeper_died, BootClock::now() + settings_.grace);
    if (!report) return std::nullopt;
    switch (report->kind) {
      case Report::Kind::started:
        command_ = report->value;
        break;
      case Report::Kind::exec_failed:
        return Ending{.kind = Ending::Kind::exec_failed, .value = report->value};
      case Report::Kind::stopped:
        stopped(report->value);
        break;
      case Report::Kind::refused:
        settings_.on_refused_signal(report->value);
        break;
      case Report::Kind::survivors:
        settings_.on_survivors(report->survivors);
        break;
      case Report::Kind::exited: {
        const bool by_itself = report->cause == Report::Cause::none;
        return Ending{.kind = by_itself ? Ending::Kind::exited : Ending::Kind::lost,
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

/// The command was stopped. From the terminal, that is meant for the whole job, so we stop as well, and with
/// us the renewal; a SIGSTOP that somebody sent to the command alone, or a stop without a terminal, is that
/// somebody's affair: the lock is kept.
void Supervisor::stopped(int signal) {
  const bool by_terminal = signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
  if (terminal_ == nullptr || !by_terminal || ending_) return;

  if (in_foreground() && signal != SIGTSTP) {  // it asks for the terminal, and our job has it to give
    terminal_->give_to(command_);
    keeper_.resume();
    return;
  }
  const bool had_terminal = terminal_->foreground() == command_;
  if (had_terminal) terminal_->give_to(getpgrp());
  const bool in_front = had_terminal || in_foreground();
  stop_by(signal, had_terminal);
  // Here we have been continued, and SIGCONT waits in the queue. Without it we were not stopped at all (an
  // orphaned group cannot be): then nobody will ever continue the command but us.
  bool woken = false;
  while (const auto next = signals_.take()) {
    if (*next == SIGCONT) {
      woken = true;
    } else {
      keeper_.signal(*next);
    }
  }
  if (woken || in_front) continued();
}

/// We were continued, from a stop of the whole job or from one of our own. The command goes on only if the
/// lease is still good: while we were stopped nobody renewed it. The whole group is continued, whether or not
/// the command itself was seen to stop: a member may be stopped alone (a shell in vfork cannot stop while it
/// waits for its stopped child, so no stop is ever reported).
void Supervisor::continued() {
  if (ending_) return;
  if (!verify_lease()) {
    end_command();
    return;
  }
  follow_lease();
  if (gives_terminal_ && command_ > 0 && in_foreground()) terminal_->give_to(command_);
  keeper_.resume();
}

bool Supervisor::verify_lease() {
  // On a thread of its own: an engine that does not answer holds a request until the lease is over, and by
  // then the command has to be gone.
  while (guard_.still_held() && BootClock::now() < overdue()) {
    try {
      verification_ = std::async(std::launch::async, [this] { return guard_.extend(settings_.ttl); });
      while (verification_.wait_for(milliseconds(5)) != std::future_status::ready) {
        if (BootClock::now() >= overdue()) return false;
      }
      return verification_.get();
    } catch (const std::exception&) {
      // The engine failed, or there is no thread to be had. The old lease counts as long as it lasts, and
      // until then either may get better.
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
  return false;
}

/// The keeper is dead or does not react, so what it kept are our descendants: we are a subreaper too. TERM
/// first if there is time until `kill_at`.
Ending Supervisor::end_it_ourselves(Ending::Kind kind, BootTime kill_at) {
  ::kill(keeper_.pid(), SIGKILL);
  // Not waited for: it may be stuck in the kernel. Until it is buried below it stays in the list, and so do
  // its children.
  kill_at = std::min(kill_at, told_ - settings_.margin);
  if (BootClock::now() < kill_at) {
    const auto left = signal_descendants(SIGTERM, command_, settings_.strangers);
    signal_descendants(SIGCONT, command_, settings_.strangers);
    if (left.beyond_reach > 0) settings_.on_survivors(survivors_of(left));
  }
  for (int blind_kills = 0; true; std::this_thread::sleep_for(milliseconds(5))) {
    const bool kill_now = BootClock::now() >= kill_at;
    const auto left = signal_descendants(kill_now ? SIGKILL : 0, command_, settings_.strangers);
    // Without children there are no descendants, whatever can be seen. With strangers among the children
    // only the list tells; without a list nobody can say that the command is gone, so we stay, and with us
    // the lock.
    if (bury_children()) return {.kind = kind};
    const bool done = left.all_seen && left.living == 0 && (kill_now || left.beyond_reach == 0);
    if (done && (left.beyond_reach > 0 || !settings_.strangers.empty())) {
      return {.kind = kind, .survivors = survivors_of(left)};
    }
    // The first kill may still be at work.
    if (kill_now && !left.all_seen && ++blind_kills == 2) settings_.on_survivors(survivors_of(left));
  }
}

}  // namespace holdfast::cli
