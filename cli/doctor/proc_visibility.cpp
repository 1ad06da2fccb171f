#include "doctor/proc_visibility.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "process/process_tree.hpp"

namespace holdfast::cli {
namespace {

struct ProcOptions {
  std::string hidepid;
  std::string gid;
};

/// Of the mount on top of the others at /proc: the last line.
ProcOptions proc_options(std::string_view mountinfo) {
  ProcOptions found;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    // id parent device root mount-point options tag... - type source options
    std::istringstream fields(line);
    const std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
    if (words.size() < 5 || words[4] != "/proc") continue;
    found = {};
    std::istringstream options(words.back());
    for (std::string option; std::getline(options, option, ',');) {
      if (option.starts_with("hidepid=")) found.hidepid = option.substr(option.find('=') + 1);
      if (option.starts_with("gid=")) found.gid = option.substr(option.find('=') + 1);
    }
  }
  return found;
}

}  // namespace

std::optional<Finding> hidden_processes(std::string_view mountinfo, const std::vector<gid_t>& groups) {
  const auto [hidepid, gid] = proc_options(mountinfo);
  if (hidepid.empty() || hidepid == "0" || hidepid == "off") return std::nullopt;
  // The group sees all, but where only what may be traced is shown.
  const bool by_trace = hidepid == "4" || hidepid == "ptraceable";
  const auto is_ours = [&](gid_t group) { return std::to_string(group) == gid; };
  if (!by_trace && std::ranges::any_of(groups, is_ours)) return std::nullopt;
  return Finding{.severity = Severity::note,
                 .topic = "processes",
                 .found = "/proc is mounted with hidepid=" + hidepid +
                          ": `holdfast run` cannot see a command that changes to another user, and cannot "
                          "stop it when the lock is lost",
                 .advice = "start holdfast as that user: sudo holdfast run ..."};
}

std::optional<Finding> hidden_processes() {
  if (!proc_has_pids_of_this_namespace()) {
    return Finding{.severity = Severity::note,
                   .topic = "processes",
                   .found =
                       "/proc shows another pid namespace, or cannot be read: `holdfast run` kills a command "
                       "and its descendants, but sends TERM only to its process group before",
                   .advice = "mount the namespace's own: unshare --mount-proc, or mount -t proc proc /proc"};
  }
  if (geteuid() == 0) return std::nullopt;
  std::ifstream file("/proc/self/mountinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(getgroups(0, nullptr), 0)));
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  groups.push_back(getegid());
  return hidden_processes(text, groups);
}

}  // namespace holdfast::cli
