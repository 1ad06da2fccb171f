#include "process/descendants.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

using posix::Descriptor;
using std::chrono::milliseconds;

namespace {

/// For signals that are sent once. KILL is repeated anyway.
constexpr int walks_of_one_signal = 4;

Descriptor open_pidfd(pid_t pid) noexcept {
  return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool send_all(const auto& send, std::initializer_list<int> signals) noexcept {
  if (signals.size() == 0) return send(0);
  return std::ranges::all_of(signals, send);
}

/// A pid of a child cannot have been reused, because only the caller reaps. For the others it is verified
/// that the pid still is the process that was listed.
bool send(const Process& process, std::initializer_list<int> signals) noexcept {
  const auto by_pid = [&](int signal) { return kill(process.pid, signal) == 0; };
  if (process.parent == getpid()) return send_all(by_pid, signals);
  const auto handle = open_pidfd(process.pid);
  if (!handle) return errno == ENOSYS && send_all(by_pid, signals);
  const auto now = read_process(process.pid);
  if (!now || !same(*now, process)) {
    errno = ESRCH;
    return false;
  }
  return send_all(
      [&](int signal) { return syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) == 0; },
      signals);
}

/// Living or not yet reaped: either way the kernel does not reuse the group's number.
bool has_child_in(pid_t group) noexcept {
  siginfo_t ignored{};
  return group > 1 && waitid(P_PGID, static_cast<id_t>(group), &ignored, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// The process groups that consist of `ours`, descendants of this process, alone.
std::unordered_set<pid_t> groups_of(const std::vector<Process>& ours, pid_t made_here) {
  std::unordered_set<pid_t> pids;
  for (const auto& process : ours) pids.insert(process.pid);
  const pid_t own_session = getsid(0);
  std::unordered_set<pid_t> groups;
  for (const auto& process : ours) {
    if (process.zombie || process.group <= 1) continue;
    // A group belongs to one session, and a session has only descendants of its founder, who founded another
    // one than this process's and so is a descendant. A group that a descendant leads was made by it or its
    // parent.
    const bool only_ours =
        !process.hidden && (process.session != own_session || pids.contains(process.group));
    if (process.group == made_here || only_ours) groups.insert(process.group);
  }
  groups.erase(getpgrp());
  return groups;
}

}  // namespace

Signalled Descendants::signal(std::initializer_list<int> signals, pid_t group,
                              const std::vector<Process>& spared) noexcept {
  const auto signal_group = [&](pid_t one) {
    for (const int signal : signals) kill(-one, signal);
  };
  // First: a child from before the list is on it unless it is hidden, because none is reaped meanwhile.
  const bool had_child = has_living_child();
  const bool group_has_them = has_child_in(group);
  if (group_has_them) signal_group(group);

  const bool repeated = std::ranges::find(signals, SIGKILL) != signals.end();
  const auto listed = own_descendants(group, spared, repeated ? 1 : walks_of_one_signal);
  if (!listed) {
    signal_unlisted(signals, group, group_has_them, spared);
    return {};
  }
  const auto groups = groups_of(*listed, group);
  for (const pid_t one : groups) {
    if (one != group || !group_has_them) signal_group(one);
  }
  Signalled result{.all_seen = true};
  bool child_is_named = false;
  for (const auto& process : *listed) {
    const bool is_child = process.parent == getpid();
    child_is_named |= is_child;
    if (process.zombie) {
      result.unburied += is_child ? 1 : 0;
      continue;
    }
    // A member of a signalled group must not get the signal twice. Only a refusal is worth a closer look.
    const bool has_them = groups.contains(process.group);
    const bool sent =
        (has_them && kill(process.pid, 0) == 0) || (has_them ? send(process, {}) : send(process, signals));
    const bool refused = !sent && errno == EPERM;
    ++(refused ? result.beyond_reach : result.living);
    if (refused && process.hidden) ++result.hidden;
  }
  // A child that neither /proc nor the threads' lists name can get no signal.
  if (had_child && !child_is_named && spared.empty() && has_living_child()) {
    ++result.beyond_reach;
    ++result.hidden;
  }
  return result;
}

/// The others are reached later: they become children of this process when their parents end.
void Descendants::signal_unlisted(std::initializer_list<int> signals, pid_t group, bool group_has_them,
                                  const std::vector<Process>& spared) {
  for (const pid_t pid : search_.next(group)) {
    if (std::ranges::find(spared, pid, &Process::pid) != spared.end()) continue;
    if (group_has_them && getpgid(pid) == group) continue;
    for (const int signal : signals) kill(pid, signal);
  }
}

void sleep_until_child_ends(BootTime time, const std::vector<Process>& spared) noexcept {
  constexpr milliseconds if_unknown{20};
  const auto own = own_descendants(0, spared, 1);
  Descriptor child;
  if (own) {
    const auto at = std::ranges::find(*own, getpid(), &Process::parent);
    if (at != own->end()) child = open_pidfd(at->pid);
  }
  const auto left = std::max(time - BootClock::now(), BootClock::duration::zero());
  if (!child) {
    std::this_thread::sleep_for(std::min<BootClock::duration>(left, if_unknown));
    return;
  }
  constexpr std::chrono::hours long_time{1};
  pollfd watched{child.get(), POLLIN, 0};
  poll(&watched, 1,
       static_cast<int>(
           std::chrono::ceil<milliseconds>(std::min<BootClock::duration>(left, long_time)).count()));
}

std::string describe(const Survivors& survivors) {
  if (survivors.unlisted) {
    return "cannot find the command's processes outside its process group: /proc cannot be read (not "
           "mounted, of another pid namespace, or too many open files). The lock is not released before they "
           "exit, but its lease may expire";
  }
  const bool one = survivors.count == 1;
  std::string text = survivors.hidden > 0 ? "at least " : "";
  text += std::to_string(survivors.count);
  text += one ? " process of the command runs" : " processes of the command run";
  text += " as another user and cannot be stopped";
  if (survivors.hidden > 0) {
    text +=
        one ? "; /proc is mounted with hidepid and hides it" : "; /proc is mounted with hidepid and hides ";
    if (!one) text += survivors.hidden == survivors.count ? "them" : "some of them";
  }
  text +=
      ". The lock is not released, but once its lease expires the next holder may run at the same time as ";
  text += one ? "it" : "them";
  return text;
}

unsigned to_be_stopped(const Signalled& checked) noexcept {
  constexpr unsigned if_unlisted = 128;  // a few passes of ChildSearch
  return checked.all_seen ? static_cast<unsigned>(checked.living + checked.beyond_reach) : if_unlisted;
}

Survivors survivors_of(const Signalled& left) noexcept {
  return {.count = static_cast<std::int32_t>(left.beyond_reach),
          .hidden = static_cast<std::int32_t>(left.hidden),
          .unlisted = !left.all_seen};
}

bool reap_children() noexcept {
  pid_t pid = 0;
  do {
    pid = waitpid(-1, nullptr, WNOHANG);
  } while (pid > 0);
  return pid < 0 && errno == ECHILD;
}

}  // namespace holdfast::cli
