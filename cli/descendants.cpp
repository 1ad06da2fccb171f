#include "descendants.hpp"

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
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "descriptor.hpp"

namespace holdfast::cli {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { closedir(directory); }
};

/// Nothing if there is no such process, or none that we may look at; errno tells that from a failure.
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

/// Not before it is certain that the pid still means the process that was seen: pids are used again.
bool send(const Process& process, int signal) noexcept {
  const Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!handle) return errno == ENOSYS ? kill(process.pid, signal) == 0 : false;
  const auto now = read_process(process.pid);
  if (!now || !same(*now, process)) {
    errno = ESRCH;
    return false;
  }
  return syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) == 0;
}

/// Living or not yet buried: either way the kernel does not give the group's number to anybody else.
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
  // Something else may be mounted there, or nothing; in the real one we find ourselves.
  const bool is_real = std::ranges::any_of(all, [](const Process& one) { return one.pid == getpid(); });
  return is_real ? std::optional(std::move(all)) : std::nullopt;
}

Signalled signal_descendants(int signal, pid_t group, const std::vector<Process>& spared) noexcept {
  const auto listed = all_processes();
  if (!listed) {
    if (has_child_in(group)) kill(-group, signal);
    return {};
  }
  const auto& all = *listed;
  const auto ours = descendants_in(all, getpid(), spared);
  std::unordered_set<pid_t> mine;
  for (const auto& process : ours) mine.insert(process.pid);

  std::unordered_set<pid_t> groups;
  for (const auto& process : ours) groups.insert(process.group);
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
    // A member of a signalled group is only looked at: it must not get the signal twice.
    const bool sent = send(process, groups.contains(process.group) ? 0 : signal);
    ++(!sent && errno == EPERM ? result.beyond_reach : result.living);
  }
  return result;
}

bool bury_children() noexcept {
  pid_t pid = 0;
  do {
    pid = waitpid(-1, nullptr, WNOHANG);
  } while (pid > 0);
  return pid < 0 && errno == ECHILD;
}

}  // namespace holdfast::cli
