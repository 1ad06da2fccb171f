#pragma once

#include <functional>
#include <holdfast/claim.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "locks/held_lock.hpp"
#include "tasks/call.hpp"

namespace holdfast {

/// The state of a Claim: the lock, the fence of its writes, and an operation, without a thread, that watches
/// whether another writer ends the task.
class ClaimedTask {
 public:
  using Self = std::shared_ptr<ClaimedTask>;
  /// One change of the last known task.
  using Write = std::function<runtime::Op<Task>(tasks::Call, Task)>;

  [[nodiscard]] static Claim start(Guard guard, std::shared_ptr<TaskStore> store, FencingToken fence,
                                   Task task);
  ClaimedTask(Guard guard, std::shared_ptr<TaskStore> store, FencingToken fence, Task task);
  ClaimedTask(const ClaimedTask&) = delete;
  ClaimedTask& operator=(const ClaimedTask&) = delete;

  [[nodiscard]] Task task() const;
  [[nodiscard]] const FencingToken& token() const noexcept { return fence_; }
  [[nodiscard]] std::stop_token stopped() const noexcept { return watched_->stop.get_token(); }
  [[nodiscard]] bool cancelled() const;
  [[nodiscard]] bool gone() const;
  [[nodiscard]] Guard& guard() noexcept { return guard_; }
  /// False once the lock was released.
  [[nodiscard]] bool is_held() const noexcept { return held_->is_held(); }
  [[nodiscard]] const std::shared_ptr<TaskStore>& store() const noexcept { return store_; }
  /// False in a forked child, where nothing here may be touched.
  [[nodiscard]] bool in_own_process() const noexcept { return held_->in_own_process(); }

  /// A write that leaves the task running.
  static runtime::Op<Task> write(runtime::Flow flow, Self self, Write what, std::stop_token stop);
  /// A write that ends the task, and with it the claim.
  static runtime::Op<Task> end(runtime::Flow flow, Self self, Write what, std::stop_token stop);
  static runtime::Op<bool> release(runtime::Flow flow, Self self, std::stop_token stop);
  /// Ends when stopped() is triggered; with Aborted when the claim ends before, or on a stop request. Does
  /// not keep the claim.
  [[nodiscard]] runtime::Op<Ok> wait_stopped(std::stop_token stop) const {
    return wait_stopped(watched_, std::move(stop));
  }
  /// The destructor's release; and the same without waiting.
  void dispose() noexcept;
  void dispose_in_background() noexcept;

 private:
  /// Shared with the watching operation, which may outlive the claim for a moment.
  struct Watched {
    std::mutex mutex;
    Task task;
    bool cancelled = false;
    bool gone = false;      ///< the task no longer exists, though another may have its id
    bool over = false;      ///< the watching operation has seen the end, and has ended
    int ending = 0;         ///< our own pending ends: if they succeed, no reason to stop the worker
    bool released = false;  ///< the claim has ended: there is no worker to stop
    std::stop_source stop;
    std::stop_source unwatch;

    /// Weak: if the last other reference is dropped while this runs, this destroys the state, so that no
    /// destructor waits for the user's callbacks.
    struct StopOnLoss {
      std::weak_ptr<Watched> watched;
      void operator()() const {
        if (const auto alive = watched.lock()) alive->stop.request_stop();
      }
    };
    std::optional<std::stop_callback<StopOnLoss>> on_loss;
  };

  static runtime::Op<Ok> watch(tasks::Call call, std::shared_ptr<Watched> watched, Task claimed);
  static runtime::Op<Ok> wait_stopped(std::shared_ptr<Watched> watched, std::stop_token stop);
  /// Runs the user's stop callbacks, on this thread; not if the claim has ended.
  static void stop_worker(Watched& watched);

  [[nodiscard]] tasks::Call call(runtime::Flow flow, std::stop_token stop) const;
  /// Ends the watch: stopped() is not triggered afterwards.
  void unwatch() noexcept;

  const std::shared_ptr<TaskStore> store_;
  const FencingToken fence_;
  const std::shared_ptr<Watched> watched_;
  /// Operations use this one: the user may move or release the guard at any time.
  const std::shared_ptr<HeldLock> held_;
  Guard guard_;
};

}  // namespace holdfast
