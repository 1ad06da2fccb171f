#pragma once

#include <exception>
#include <functional>
#include <holdfast/tasks.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "sys/worker_pool.hpp"

namespace holdfast {

/// What stands behind a Claim: the lock, the fenced store, and a thread that watches for the task's end by
/// somebody else's hand.
class ClaimedTask {
 public:
  /// ServiceUnavailable if there is no thread to be had; the lock is released then.
  ClaimedTask(Guard guard, const Tasks& fenced, Task task);
  ~ClaimedTask();
  ClaimedTask(const ClaimedTask&) = delete;
  ClaimedTask& operator=(const ClaimedTask&) = delete;

  [[nodiscard]] Task task() const;
  [[nodiscard]] const FencingToken& fence() const noexcept { return *fenced_.fence(); }
  [[nodiscard]] std::stop_token stopped() const noexcept { return watched_->stop.get_token(); }
  [[nodiscard]] bool cancelled() const;
  [[nodiscard]] Guard& guard() noexcept { return guard_; }

  /// A write that leaves the task running.
  Task write(const std::function<Task(Tasks&)>& change);
  /// A write that ends it, and with it the claim.
  Task end(const std::function<Task(Tasks&)>& change);
  bool release();

 private:
  /// Shared with the watching thread, which may outlive the claim for a moment.
  struct Watched {
    std::mutex mutex;
    Task task;
    bool cancelled = false;
    bool over = false;    ///< the watching thread has seen the end, and is gone
    bool ending = false;  ///< by our own hand, if all goes well: no reason to stop the worker
    std::stop_source stop;
    std::stop_source unwatch;
  };
  static void watch(Watched& watched, Tasks tasks, const Task& claimed);
  /// Whether the watching thread has seen the end.
  bool set_ending(bool ending);
  /// Whether what was thrown says that the task is somebody else's, or over.
  static bool is_refusal(const std::exception_ptr& thrown);

  Guard guard_;
  Tasks fenced_;
  const std::shared_ptr<Watched> watched_;
  struct StopOnLoss {
    std::shared_ptr<Watched> watched;
    void operator()() const { watched->stop.request_stop(); }
  };
  std::optional<std::stop_callback<StopOnLoss>> on_loss_;
  sys::WorkerPool watcher_{1};
};

}  // namespace holdfast
