#pragma once

#include <chrono>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace holdfast {

class WatchedTasks;

/// The latest state of a task, after a change.
struct TaskChange {
  /// The id of the task.
  std::string id;
  /// The task; empty if it no longer exists: it was removed, or has expired.
  std::optional<Task> task;
};

namespace operation {

/// The operation of TaskWatch::next.
struct HOLDFAST_EXPORT NextTaskChanges {
  /// One for each task that changed, in no particular order; empty after the timeout.
  using Answer = std::vector<TaskChange>;
  /// How long to wait; no_time_limit: forever.
  std::chrono::milliseconds timeout = no_time_limit;
};

}  // namespace operation

/// Follows a task, the tasks of an owner, or those of a queue: each call of next() returns the tasks that
/// changed since the call before, as they are now. Tasks::watch and Queue::watch return one.
///
/// @code
/// auto watch = queue.watch();
/// for (;;) {
///   for (const auto& change : watch.next()) show(change);
/// }
/// @endcode
///
/// *What is returned.* The first call returns all tasks there are. A change is one of the stored record, of
/// the fence, or of place, attempts and worker in a queue; the renewal of a lease is none. Changes between
/// two calls are merged. The last state of a task never goes missing as long as its record lives: each state
/// was read after the change was reported, and the store is also read from time to time, for changes that are
/// not reported (by other software, by expiry, while a connection was lost).
///
/// *Cost.* A change of one task costs one read. Of many tasks, all are listed at first, after a lost
/// connection, and every 2 s (without change feeds every 500 ms), or less often, so that at most a twentieth
/// of the time is spent on it. The state of each task that was returned is remembered in some 100 bytes.
///
/// *Errors.* Those of Tasks; NotFound if a single task does not exist, Aborted after a stop request.
/// Transient errors are waited out for up to a minute. After an error, the next call goes on where this one
/// ended.
///
/// *Threads.* Movable; used by one call at a time (InvalidArgument otherwise).
class HOLDFAST_EXPORT TaskWatch {
 public:
  /// Makes an empty one: its operations fail with InvalidArgument.
  TaskWatch() noexcept;
  /// Moves the watch; `other` is empty afterwards.
  TaskWatch(TaskWatch&& other) noexcept;
  /// Moves the watch; `other` is empty afterwards.
  TaskWatch& operator=(TaskWatch&& other) noexcept;
  /// Ends the watch.
  ~TaskWatch();

  /// Waits on this thread for changes and returns them; empty after `timeout`.
  [[nodiscard]] std::vector<TaskChange> next(std::chrono::milliseconds timeout = no_time_limit,
                                             std::stop_token stop = {}) {
    return run(operation::NextTaskChanges{timeout}, std::move(stop));
  }
  /// Runs operation::NextTaskChanges on this thread.
  template <class Operation>
  typename Operation::Answer run(Operation operation, std::stop_token stop = {});
  /// Starts the same without blocking, and completes `done` with what run() returns or throws. The watch may
  /// be moved or destroyed meanwhile.
  template <class Operation>
  void start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done);

 private:
  friend class WatchedTasks;
  explicit TaskWatch(std::shared_ptr<WatchedTasks> watched) noexcept;
  std::shared_ptr<WatchedTasks> watched_;
};

}  // namespace holdfast
