#pragma once

#include <condition_variable>
#include <functional>
#include <holdfast/change_feed.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::view {

/// Collects the changes of a feed, without a thread of its own.
class Following {
 public:
  /// `feed` is not null. `wake` is called when there is something to take, on any thread, with a mutex of
  /// this object held.
  Following(std::unique_ptr<ChangeFeed> feed, std::function<void()> wake);
  /// Waits until the feed is no longer in use.
  ~Following();
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;

  /// Returns the changes since the last call and listens for more. To be called by one thread.
  [[nodiscard]] std::vector<Change> take();

 private:
  void hear(Result<std::vector<Change>> changes) noexcept;

  std::unique_ptr<ChangeFeed> feed_;
  const std::function<void()> wake_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Change> changes_;
  bool waiting_ = false;
};

/// The task that a change is about.
struct TaskName {
  std::string owner, id;
  friend bool operator==(const TaskName&, const TaskName&) = default;
};
/// Returns the task that the key of a change names; see Tasks::follow.
[[nodiscard]] TaskName task_name(std::string_view key);
/// Returns the queue whose task the key of a change names; empty if it is a task of an owner.
[[nodiscard]] std::optional<std::string> queue_name(std::string_view key);

}  // namespace holdfast::view
