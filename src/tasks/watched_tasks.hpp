#pragma once

#include <atomic>
#include <chrono>
#include <holdfast/task_watch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/op.hpp"
#include "tasks/call.hpp"

namespace holdfast {

namespace tasks {

/// What a watch knows of its tasks: which states were returned, which are to be returned, what is to be read.
/// Pure: no clock, no threads, no I/O.
class WatchState {
 public:
  /// A task was read; `task` is empty if it does not exist.
  void read(const std::string& id, std::optional<Task> task);
  /// All tasks are read from here on, with read(), until end_listing().
  void begin_listing() { listed_.clear(); }
  void listed(Task task);
  /// Tasks that were known and not listed are gone.
  void end_listing();

  /// A task may have changed; it is read once, however often it is reported.
  void report(std::string id);
  /// Any task may have changed.
  void report_all() {
    all_ = true;
    reported_.clear();
  }
  [[nodiscard]] bool must_list() const noexcept { return all_; }
  /// A task to read; empty if there is none.
  [[nodiscard]] std::optional<std::string> next_to_read() const;

  [[nodiscard]] bool has_changes() const noexcept { return !changes_.empty(); }
  [[nodiscard]] std::vector<TaskChange> take_changes();

 private:
  /// Beyond this, a list is cheaper than single reads.
  static constexpr std::size_t most_reported = 100;

  std::map<std::string, std::string> known_;  ///< id → what distinguishes its states
  std::map<std::string, TaskChange> changes_;
  std::set<std::string> reported_;
  std::set<std::string> listed_;
  bool all_ = true;
};

}  // namespace tasks

/// The state of a TaskWatch.
class WatchedTasks {
 public:
  using Self = std::shared_ptr<WatchedTasks>;
  /// Without an id: all tasks of the owner.
  WatchedTasks(tasks::Call call, std::string owner, std::optional<std::string> id)
      : call_(std::move(call)), owner_(std::move(owner)), id_(std::move(id)) {}
  [[nodiscard]] static TaskWatch watch(tasks::Call call, std::string owner, std::optional<std::string> id) {
    return TaskWatch(std::make_shared<WatchedTasks>(std::move(call), std::move(owner), std::move(id)));
  }

  [[nodiscard]] static runtime::Op<std::vector<TaskChange>> perform(runtime::Flow flow, Self self,
                                                                    operation::NextTaskChanges what,
                                                                    std::stop_token stop);
  [[nodiscard]] const TaskStore& store() const noexcept { return *call_.store; }

 private:
  using Changes = std::vector<TaskChange>;
  runtime::Op<Changes> next(tasks::Call call, BootTime deadline);
  runtime::Op<Ok> subscribe(tasks::Call call, BootTime deadline);
  runtime::Op<Ok> read(tasks::Call call);
  runtime::Op<Ok> list(tasks::Call call);
  void take(const std::vector<Change>& reported);

  tasks::Call call_;  ///< without a flow or stop token that counts
  std::string owner_;
  std::optional<std::string> id_;
  std::string prefix_;  ///< of the keys of its tasks
  tasks::WatchState state_;
  BootTime list_at_ = never;
  bool is_subscribed_ = false;
  std::atomic<bool> is_used_ = false;
  // Last: they must not outlive the store.
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<ChangeFeed> feed_;
};

}  // namespace holdfast
