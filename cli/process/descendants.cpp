#include "process/descendants.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

using posix::Descriptor;

namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { closedir(directory); }
};
struct CloseFile {
  void operator()(FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
};

/// Nothing if there is no such process, or it may not be read; errno tells that from a failure.
std::optional<Process> read_process(int proc, const char* name) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "%s/stat", name);
  const Descriptor file(openat(proc, path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  if (!file) return std::nullopt;
  const auto n = read(file.get(), text.data(), text.size() - 1);
  if (n < 0) return std::nullopt;
  errno = ESRCH;
  // "pid (name) state ppid pgrp ...": the name may contain anything, so what follows its last ')' counts.
  const char* rest = std::strrchr(text.data(), ')');
  if (rest == nullptr) return std::nullopt;
  Process process;
  char state = 0;
  if (std::sscanf(rest, ") %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &state, &process.parent, &process.group, &process.started) != 4) {
    return std::nullopt;
  }
  process.pid = static_cast<pid_t>(std::strtol(text.data(), nullptr, 10));
  process.zombie = state == 'Z' || state == 'X';
  return process;
}

std::optional<Process> read_process(pid_t pid) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "/proc/%d", pid);
  return read_process(AT_FDCWD, name.data());
}

bool same(const Process& a, const Process& b) noexcept {
  return a.pid == b.pid && a.started == b.started;
}

std::vector<Process> descendants_in(const std::vector<Process>& all, pid_t root,
                                    const std::vector<Process>& spared) {
  std::unordered_multimap<pid_t, const Process*> children;
  for (const auto& process : all) children.emplace(process.parent, &process);
  std::vector<Process> found;
  std::unordered_set<pid_t> seen{root};
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto at = begin; at != end; ++at) {
      const Process& child = *at->second;
      if (!seen.insert(child.pid).second) continue;
      if (std::ranges::any_of(spared, [&](const Process& one) { return same(one, child); })) continue;
      open.push_back(child.pid);
      if (!child.zombie) found.push_back(child);
    }
  }
  return found;
}

/// Verifies first that the pid still is the process that was listed: pids are reused.
bool send(const Process& process, int signal) noexcept {
  if (process.hidden) return kill(process.pid, signal) == 0;  // a child: its pid cannot have been reused
  const Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!handle) return errno == ENOSYS ? kill(process.pid, signal) == 0 : false;
  const auto now = read_process(process.pid);
  if (!now || !same(*now, process)) {
    errno = ESRCH;
    return false;
  }
  return syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) == 0;
}

/// Asks the kernel, whatever /proc shows. `type` and `id` as for waitid.
bool has_living_child(idtype_t type, pid_t id) noexcept {
  siginfo_t dead{};
  return waitid(type, static_cast<id_t>(id), &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid == 0;
}

/// The children that each thread of this process lists: hidepid does not apply there. Nothing if the kernel
/// was built without that file, or no descriptor is left.
std::optional<std::vector<pid_t>> listed_children() {
  const std::unique_ptr<DIR, CloseDirectory> tasks(opendir("/proc/self/task"));
  if (!tasks) return std::nullopt;
  std::vector<pid_t> pids;
  while (const dirent* entry = readdir(tasks.get())) {
    if (entry->d_name[0] == '.') continue;
    const auto path = "/proc/self/task/" + std::string(entry->d_name) + "/children";
    const std::unique_ptr<FILE, CloseFile> file(std::fopen(path.c_str(), "re"));
    if (!file) return std::nullopt;
    for (int pid = 0; std::fscanf(file.get(), "%d", &pid) == 1;) pids.push_back(pid);
  }
  return pids;
}

/// Living children that are not in `listed`, the processes that /proc shows. `leader` is the command's first
/// process, 0 if there is none: it is known even where the kernel lists no children.
std::vector<Process> hidden_children(const std::vector<Process>& listed, pid_t leader) {
  std::vector<Process> hidden;
  for (const pid_t pid : listed_children().value_or(std::vector{leader})) {
    if (pid <= 0 || std::ranges::find(listed, pid, &Process::pid) != listed.end()) continue;
    // A child that was forked or adopted since is visible, or is on the next list.
    if (read_process(pid) || !has_living_child(P_PID, pid)) continue;
    hidden.push_back({.pid = pid, .parent = getpid(), .group = getpgid(pid), .hidden = true});
  }
  return hidden;
}

/// Living or not yet reaped: either way the kernel does not reuse the group's number.
bool has_child_in(pid_t group) noexcept {
  siginfo_t ignored{};
  return group > 1 && waitid(P_PGID, static_cast<id_t>(group), &ignored, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

std::optional<std::vector<Process>> all_processes() {
  std::vector<Process> all;
  const std::unique_ptr<DIR, CloseDirectory> proc(opendir("/proc"));
  if (!proc) return std::nullopt;
  while (const dirent* entry = readdir(proc.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (auto process = read_process(dirfd(proc.get()), entry->d_name)) {
      all.push_back(*process);
    } else if (errno != ESRCH && errno != ENOENT && errno != EACCES && errno != EPERM) {
      return std::nullopt;
    }
  }
  // Another file system may be mounted there; the real one lists this process.
  const bool is_real = std::ranges::any_of(all, [](const Process& one) { return one.pid == getpid(); });
  return is_real ? std::optional(std::move(all)) : std::nullopt;
}

std::vector<Process> own_children() {
  // Most often there is none, and the kernel says so at once; /proc has to be read to the end.
  siginfo_t ignored{};
  const int any = waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT | __WALL);
  if (any != 0 && errno == ECHILD) return {};
  auto all = all_processes().value_or(std::vector<Process>{});
  std::ranges::copy(hidden_children(all, 0), std::back_inserter(all));
  std::erase_if(all, [self = getpid()](const Process& process) { return process.parent != self; });
  return all;
}

Signalled signal_descendants(int signal, pid_t group, const std::vector<Process>& spared) noexcept {
  // First: a child from before the list is on it unless it is hidden, because none is reaped meanwhile.
  const bool had_child = has_living_child(P_ALL, 0);
  auto listed = all_processes();
  if (!listed) {
    if (has_child_in(group)) kill(-group, signal);
    return {};
  }
  auto& all = *listed;
  std::ranges::copy(hidden_children(all, group), std::back_inserter(all));
  const auto ours = descendants_in(all, getpid(), spared);
  std::unordered_set<pid_t> mine;
  for (const auto& process : ours) mine.insert(process.pid);

  // Which other members the group of a hidden process has is unknown, except for the group made here.
  std::unordered_set<pid_t> groups;
  for (const auto& process : ours) {
    if (!process.hidden || process.group == group) groups.insert(process.group);
  }
  for (const auto& process : all) {
    if (!process.zombie && !mine.contains(process.pid)) groups.erase(process.group);
  }
  groups.erase(0);
  groups.erase(1);

  Signalled result{.all_seen = true};
  if (signal != 0) {
    for (const pid_t one : groups) kill(-one, signal);
  }
  for (const auto& process : ours) {
    // A member of a signalled group is only checked: it must not get the signal twice.
    const bool sent = send(process, groups.contains(process.group) ? 0 : signal);
    const bool refused = !sent && errno == EPERM;
    ++(refused ? result.beyond_reach : result.living);
    if (refused && process.hidden) ++result.hidden;
  }
  // A child that neither /proc nor the threads' lists name can get no signal.
  const bool child_is_named = std::ranges::find(all, getpid(), &Process::parent) != all.end();
  if (had_child && !child_is_named && has_living_child(P_ALL, 0)) {
    ++result.beyond_reach;
    ++result.hidden;
  }
  return result;
}

std::string describe(const Survivors& survivors) {
  if (survivors.unlisted) {
    return "cannot find the command's processes outside its process group: /proc cannot be read (not "
           "mounted, or too many open files). The lock is not released before they exit, but its lease may "
           "expire";
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
