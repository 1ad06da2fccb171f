#include "process/process_tree.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>

namespace holdfast::test {
namespace {

using cli::Process;

/// Processes that a test makes, and that change when `on_look` says so.
class FakeTable final : public cli::ProcessTable {
 public:
  void add(pid_t pid, pid_t parent, unsigned long long started = 1) {
    processes_[pid] = {.pid = pid, .parent = parent, .started = started};
  }
  void hide(pid_t pid) { hidden_.push_back(pid); }
  /// As the kernel does: its children go to the subreaper.
  void end(pid_t pid, pid_t subreaper) {
    processes_.erase(pid);
    for (auto& [child, process] : processes_) {
      if (process.parent == pid) process.parent = subreaper;
    }
  }
  std::function<void(pid_t)> on_look = [](pid_t) {};
  int looks = 0;

  std::optional<std::vector<pid_t>> children(pid_t parent) override {
    ++looks;
    on_look(parent);
    std::vector<pid_t> pids;
    for (const auto& [pid, process] : processes_) {
      if (process.parent == parent) pids.push_back(pid);
    }
    return pids;
  }
  std::optional<Process> find(pid_t pid) override {
    const auto at = processes_.find(pid);
    if (at == processes_.end() || std::ranges::find(hidden_, pid) != hidden_.end()) return std::nullopt;
    return at->second;
  }
  std::optional<Process> own_child(pid_t pid) override {
    const auto at = processes_.find(pid);
    if (at == processes_.end()) return std::nullopt;
    return Process{.pid = pid, .parent = at->second.parent, .hidden = true};
  }

 private:
  std::map<pid_t, Process> processes_;
  std::vector<pid_t> hidden_;
};

std::vector<pid_t> pids(const std::optional<std::vector<Process>>& found) {
  std::vector<pid_t> result;
  for (const auto& process : found.value()) result.push_back(process.pid);
  return result;
}

using Pids = std::vector<pid_t>;

TEST(ProcessTree, HasEveryDescendantAndNoOtherProcess) {
  FakeTable table;
  for (const auto& [pid, parent] : {std::pair{2, 1}, {3, 2}, {4, 2}, {5, 4}, {6, 9}, {9, 0}})
    table.add(pid, parent);
  EXPECT_EQ(pids(descendants_of(1, table, {}, 1)), (Pids{2, 3, 4, 5}));
  EXPECT_EQ(pids(descendants_of(4, table, {}, 1)), (Pids{5}));
  EXPECT_EQ(pids(descendants_of(3, table, {}, 1)), Pids{});
}

TEST(ProcessTree, IsLookedAtInProportionToItsOwnSize) {
  FakeTable table;
  for (pid_t pid = 10; pid < 2000; ++pid) table.add(pid, 0);
  table.add(2, 1);
  table.add(3, 2);
  EXPECT_EQ(pids(descendants_of(1, table, {}, 4)), (Pids{2, 3}));
  EXPECT_EQ(table.looks, 2 * 3) << "two walks of three processes";
}

TEST(ProcessTree, FindsAProcessWhoseParentEndsWhileItIsLookedAt) {
  FakeTable table;
  table.add(2, 1);
  table.add(3, 2);
  table.on_look = [&](pid_t parent) {
    if (parent == 2) table.end(2, 1);
  };
  EXPECT_EQ(pids(descendants_of(1, table, {}, 1)), (Pids{2})) << "else this test shows nothing";
  table.add(2, 1);
  table.add(3, 2);
  EXPECT_EQ(pids(descendants_of(1, table, {}, 4)), (Pids{3}));
}

TEST(ProcessTree, IsNotWalkedForEverIfItChangesAllTheTime) {
  FakeTable table;
  pid_t last = 1;
  table.on_look = [&](pid_t parent) {
    if (parent == 1) table.add(++last, 1);
  };
  EXPECT_EQ(descendants_of(1, table, {}, 4)->size(), 4U);
}

TEST(ProcessTree, DoesNotIncludeAProcessThatHasGotThePidOfAChild) {
  FakeTable table;
  table.add(2, 1);
  table.add(3, 2);
  table.on_look = [&](pid_t parent) {
    if (parent == 2) table.on_look = [](pid_t) {};
  };
  // Listed below 2, but another process's child when it is read.
  class Reused final : public cli::ProcessTable {
   public:
    explicit Reused(FakeTable& table) : table_(table) {}
    std::optional<std::vector<pid_t>> children(pid_t parent) override { return table_.children(parent); }
    std::optional<Process> find(pid_t pid) override {
      auto found = table_.find(pid);
      if (pid == 3) found->parent = 77;
      return found;
    }
    std::optional<Process> own_child(pid_t pid) override { return table_.own_child(pid); }

   private:
    FakeTable& table_;
  } reused(table);
  EXPECT_EQ(pids(descendants_of(1, reused, {}, 4)), (Pids{2}));
}

TEST(ProcessTree, LeavesOutWhatIsSparedWithItsDescendants) {
  FakeTable table;
  table.add(2, 1, 5);
  table.add(3, 2);
  table.add(4, 1);
  EXPECT_EQ(pids(descendants_of(1, table, {{.pid = 2, .started = 5}}, 1)), (Pids{4}));
  EXPECT_EQ(pids(descendants_of(1, table, {{.pid = 2, .hidden = true}}, 1)), (Pids{4}));
  EXPECT_EQ(pids(descendants_of(1, table, {{.pid = 2, .started = 6}}, 1)), (Pids{2, 3, 4})) << "a reused pid";
}

TEST(ProcessTree, HasHiddenChildrenButNoOtherHiddenProcess) {
  FakeTable table;
  for (const auto& [pid, parent] : {std::pair{2, 1}, {3, 2}, {4, 1}, {5, 4}}) table.add(pid, parent);
  table.hide(2);
  table.hide(5);
  EXPECT_EQ(pids(descendants_of(1, table, {}, 1)), (Pids{2, 3, 4}));
}

TEST(ProcessTree, OfThisProcessHasItsChildrenAndTheirs) {
  const pid_t child = fork();
  if (child == 0) {
    if (fork() >= 0) pause();
    _exit(0);
  }
  std::vector<Process> found;
  while (found.size() < 2) found = cli::own_descendants(0, {}, 4).value();
  EXPECT_EQ(found.size(), 2U);
  EXPECT_TRUE(std::ranges::any_of(found, [&](const Process& one) { return one.pid == child; }));
  EXPECT_TRUE(std::ranges::any_of(found, [&](const Process& one) { return one.parent == child; }));
  EXPECT_EQ(cli::own_children().size(), 1U);
  EXPECT_EQ(found.front().session, getsid(0));
  cli::ChildSearch search;
  Pids asked;
  for (int i = 0; i < 64 && asked.empty(); ++i) asked = search.next(child);
  EXPECT_EQ(asked, (Pids{child})) << "the kernel names it without /proc too";
  for (const auto& process : found) kill(process.pid, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0) {
  }
}

TEST(ProcessTree, IsNotReadFromAProcWhosePidsAreThoseOfAnotherNamespace) {
  const std::string before = "Name:\tholdfast\nPid:\t7\n", after = "\nNSpgid:\t7\n";
  EXPECT_TRUE(cli::has_pids_of_this_namespace(before + "NSpid:\t7" + after, 7, true));
  EXPECT_FALSE(cli::has_pids_of_this_namespace(before + "NSpid:\t4711\t7" + after, 7, true))
      << "an outer one";
  EXPECT_FALSE(cli::has_pids_of_this_namespace(before + "NSpid:\t7\t7" + after, 7, true))
      << "by chance the same";
  EXPECT_FALSE(cli::has_pids_of_this_namespace(before + "NSpid:\t70" + after, 7, true));
  EXPECT_FALSE(cli::has_pids_of_this_namespace(before + "NSpid:\t" + after, 7, true));
  EXPECT_FALSE(cli::has_pids_of_this_namespace(before, 7, true)) << "not stated";
  EXPECT_TRUE(cli::has_pids_of_this_namespace(before, 7, false)) << "a kernel without namespaces";
  EXPECT_FALSE(cli::has_pids_of_this_namespace("", 7, false));
  EXPECT_TRUE(cli::proc_has_pids_of_this_namespace());
}

}  // namespace
}  // namespace holdfast::test
