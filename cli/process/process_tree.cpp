#include "process/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
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
using Directory = std::unique_ptr<DIR, CloseDirectory>;

/// Whether the file is missing because its process has ended or is hidden. Any other error says nothing about
/// the process.
bool is_absence(int error) noexcept {
  return error == ENOENT || error == ESRCH || error == EACCES || error == EPERM;
}

/// Nothing if there is no such process, or it may not be read; errno tells that from a failure.
std::optional<Process> read_stat(int proc, const char* name) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "%s/stat", name);
  const Descriptor file(openat(proc, path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  if (!file) return std::nullopt;
  const auto n = read(file.get(), text.data(), text.size() - 1);
  if (n < 0) return std::nullopt;
  errno = ESRCH;
  // "pid (name) state ppid pgrp session ...": the name may contain anything, so what follows its last ')'
  // counts.
  const char* rest = std::strrchr(text.data(), ')');
  if (rest == nullptr) return std::nullopt;
  Process process;
  char state = 0;
  if (std::sscanf(rest, ") %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &state, &process.parent, &process.group, &process.session, &process.started) != 5) {
    return std::nullopt;
  }
  process.pid = static_cast<pid_t>(std::strtol(text.data(), nullptr, 10));
  process.zombie = state == 'Z' || state == 'X';
  return process;
}

/// As waitid: 0 with `si_pid` 0 is a living child.
bool is_living_child(idtype_t type, pid_t id) noexcept {
  siginfo_t dead{};
  return waitid(type, static_cast<id_t>(id), &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid == 0;
}

std::optional<Process> living_child(pid_t pid) noexcept {
  if (pid <= 0 || !is_living_child(P_PID, pid)) return std::nullopt;
  return Process{
      .pid = pid, .parent = getpid(), .group = getpgid(pid), .session = getsid(pid), .hidden = true};
}

/// Nothing if it cannot be read; errno says why.
std::optional<std::string> read_file(const char* path) {
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto n = read(file.get(), buffer.data(), buffer.size());
    if (n < 0) return std::nullopt;
    if (n == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

/// Adds the pids in one `children` file. False if it cannot be read.
bool read_children(const std::string& path, std::vector<pid_t>& pids) {
  const auto text = read_file(path.c_str());
  if (!text) return false;
  for (const char *at = text->data(), *const end = at + text->size(); at < end;) {
    pid_t pid = 0;
    const auto [rest, error] = std::from_chars(at, end, pid);
    if (error == std::errc()) pids.push_back(pid);
    at = rest + 1;
  }
  return true;
}

/// /proc with the files that list the children of each thread. hidepid does not apply to what is in them.
class LiveTable final : public ProcessTable {
 public:
  std::optional<std::vector<pid_t>> children(pid_t parent) override {
    const auto path = "/proc/" + std::to_string(parent) + "/task";
    std::vector<pid_t> pids;
    const Directory tasks(opendir(path.c_str()));
    const bool own = parent == getpid();
    if (!tasks) return is_absence(errno) && !own ? std::optional(pids) : std::nullopt;
    while (const dirent* entry = readdir(tasks.get())) {
      if (entry->d_name[0] == '.') continue;
      if (read_children(path + "/" + entry->d_name + "/children", pids) || is_absence(errno)) continue;
      return std::nullopt;
    }
    return pids;
  }
  std::optional<Process> find(pid_t pid) override {
    auto process = read_process(pid);
    if (!process && !is_absence(errno)) complete_ = false;
    return process;
  }
  std::optional<Process> own_child(pid_t pid) override { return living_child(pid); }
  /// Whether all that was looked for could be read: a partial list proves nothing.
  [[nodiscard]] bool complete() const noexcept { return complete_; }

 private:
  bool complete_ = true;
};

/// All processes that /proc showed at once.
class SnapshotTable final : public ProcessTable {
 public:
  /// `own_children`: pids of children of this process, which may be hidden.
  SnapshotTable(const std::vector<Process>& all, std::vector<pid_t> own_children)
      : own_children_(std::move(own_children)) {
    for (const auto& process : all) {
      processes_.emplace(process.pid, process);
      children_.emplace(process.parent, process.pid);
    }
  }
  std::optional<std::vector<pid_t>> children(pid_t parent) override {
    auto pids = parent == getpid() ? own_children_ : std::vector<pid_t>();
    const auto [begin, end] = children_.equal_range(parent);
    for (auto at = begin; at != end; ++at) pids.push_back(at->second);
    return pids;
  }
  std::optional<Process> find(pid_t pid) override {
    const auto at = processes_.find(pid);
    return at == processes_.end() ? std::nullopt : std::optional(at->second);
  }
  std::optional<Process> own_child(pid_t pid) override {
    // A child that was forked or adopted since is visible, or is on the next list.
    return read_process(pid) ? std::nullopt : living_child(pid);
  }

 private:
  std::vector<pid_t> own_children_;
  std::unordered_map<pid_t, Process> processes_;
  std::unordered_multimap<pid_t, pid_t> children_;
};

/// Nothing if /proc could not be read completely: a partial list proves nothing.
std::optional<std::vector<Process>> all_processes() {
  std::vector<Process> all;
  const Directory proc(opendir("/proc"));
  if (!proc) return std::nullopt;
  while (const dirent* entry = readdir(proc.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (auto process = read_stat(dirfd(proc.get()), entry->d_name)) {
      all.push_back(*process);
    } else if (!is_absence(errno)) {
      return std::nullopt;
    }
  }
  return all;
}

std::optional<std::vector<Process>> walk(pid_t root, ProcessTable& table,
                                         const std::vector<Process>& spared) {
  std::vector<Process> found;
  std::unordered_set<pid_t> seen{root};
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto children = table.children(parent);
    if (!children) return std::nullopt;
    for (const pid_t pid : *children) {
      if (seen.contains(pid)) continue;
      auto process = table.find(pid);
      // The pid of a child of the root names it until it is reaped. Below, one that is not shown is left out:
      // it becomes a child of the root when its parents are dead.
      if (!process && parent == root) process = table.own_child(pid);
      // Since the pid was listed, its process may have ended and another may have it.
      if (!process || !seen.contains(process->parent)) continue;
      seen.insert(pid);
      if (std::ranges::any_of(spared, [&](const Process& one) { return same(one, *process); })) continue;
      open.push_back(pid);
      found.push_back(*process);
    }
  }
  std::ranges::sort(found, {}, &Process::pid);
  return found;
}

/// The highest pid that there can be.
pid_t highest_pid() {
  constexpr pid_t limit_of_linux = 1 << 22;
  const auto text = read_file("/proc/sys/kernel/pid_max");
  const auto first_too_high = text ? static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10)) : 0;
  return (first_too_high > 1 ? first_too_high : limit_of_linux) - 1;
}

std::vector<pid_t> living_children(pid_t first, pid_t last) {
  std::vector<pid_t> found;
  for (pid_t pid = first; pid <= last; ++pid) {
    if (is_living_child(P_PID, pid)) found.push_back(pid);
  }
  return found;
}

bool agree(const std::vector<Process>& a, const std::vector<Process>& b) {
  return std::ranges::equal(a, b, same);
}

}  // namespace

bool same(const Process& a, const Process& b) noexcept {
  return a.pid == b.pid && (a.started == b.started || a.hidden || b.hidden);
}

std::optional<std::vector<Process>> descendants_of(pid_t root, ProcessTable& table,
                                                   const std::vector<Process>& spared, int most_walks) {
  auto found = walk(root, table, spared);
  for (int walks = 1; found && walks < most_walks; ++walks) {
    auto again = walk(root, table, spared);
    const bool done = !again || agree(*found, *again);
    found = std::move(again);
    if (done) break;
  }
  return found;
}

bool has_pids_of_this_namespace(std::string_view status, pid_t self, bool namespaces) noexcept {
  constexpr std::string_view name = "\nNSpid:";
  const auto at = status.find(name);
  if (at == std::string_view::npos) return !namespaces && !status.empty();
  // The pid in each namespace, from that of this /proc down to that of this process.
  auto pids = status.substr(at + name.size());
  pids = pids.substr(0, pids.find('\n'));
  const auto begin = pids.find_first_not_of(" \t");
  return begin != std::string_view::npos && pids.substr(begin) == std::to_string(self);
}

bool proc_has_pids_of_this_namespace() noexcept {
  // Each time: the command may mount the /proc of a namespace below over this one.
  const auto status = read_file("/proc/self/status");
  struct stat ignored{};
  const bool namespaces = stat("/proc/self/ns/pid", &ignored) == 0;
  return status && has_pids_of_this_namespace(*status, getpid(), namespaces);
}

std::optional<Process> read_process(pid_t pid) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "/proc/%d", pid);
  return read_stat(AT_FDCWD, name.data());
}

bool has_living_child() noexcept {
  return is_living_child(P_ALL, 0);
}

std::optional<std::vector<Process>> own_descendants(pid_t leader, const std::vector<Process>& spared,
                                                    int most_walks) {
  if (!proc_has_pids_of_this_namespace()) return std::nullopt;
  std::vector<pid_t> known{leader};
  struct stat ignored{};
  if (stat("/proc/thread-self/children", &ignored) == 0) {
    LiveTable table;
    auto found = descendants_of(getpid(), table, spared, most_walks);
    if (!table.complete()) return std::nullopt;
    // The children of a hidden process are not listed, but those of them that are visible name their parent.
    if (!found || std::ranges::none_of(*found, &Process::hidden)) return found;
    known.clear();
    for (const auto& process : *found) {
      if (process.hidden) known.push_back(process.pid);
    }
  } else if (errno != ENOENT) {
    return std::nullopt;
  }
  const auto all = all_processes();
  // Another file system may have been mounted there since.
  if (!all || std::ranges::find(*all, getpid(), &Process::pid) == all->end()) return std::nullopt;
  SnapshotTable table(*all, known);
  return descendants_of(getpid(), table, spared, 1);
}

std::vector<Process> own_children() {
  // Most often there is none, and the kernel says so at once.
  siginfo_t ignored{};
  const int any = waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT | __WALL);
  if (any != 0 && errno == ECHILD) return {};
  if (auto all = own_descendants(0, {}, 1)) {
    std::erase_if(*all, [self = getpid()](const Process& process) { return process.parent != self; });
    return std::move(*all);
  }
  std::vector<Process> children;
  for (const pid_t pid : living_children(1, highest_pid())) {
    children.push_back({.pid = pid, .parent = getpid(), .hidden = true});
  }
  return children;
}

std::vector<pid_t> ChildSearch::next(pid_t near) {
  constexpr pid_t at_once = 1 << 15;  // takes some 5 ms
  const pid_t highest = highest_pid();
  const pid_t first = std::clamp(near, 1, highest);
  const pid_t near_end = std::min(highest, first + at_once - 1);
  auto found = living_children(first, near_end);
  if (next_ <= near_end && next_ >= first) next_ = near_end + 1;
  if (next_ < 1 || next_ > highest) next_ = 1;
  const pid_t last = std::min(highest, next_ + at_once - 1);
  for (const pid_t pid : living_children(next_, last)) {
    if (pid < first || pid > near_end) found.push_back(pid);
  }
  next_ = last + 1;
  return found;
}

}  // namespace holdfast::cli
