#pragma once

#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

namespace holdfast::sys {

struct QueuedWaiter;

/// One wait for which no thread sleeps. It ends once: under the mutex of its owner, by whoever comes first of
/// a wake-up, its time and a stop request. So a wake-up is never given to one that ends for another reason.
/// It is completed after that, without the mutex.
class IdleWait {
 public:
  void complete() {
    on_stop_.reset();  // a request under way on another thread is through with us after this
    done_(woken_);
  }

 private:
  friend class IdleWaits;
  friend class WakeQueue;
  IdleWait(BootTime look_again_at, BootTime deadline, std::stop_token stop, Done<bool> done)
      : look_again_at_(look_again_at), deadline_(deadline), stop_(std::move(stop)), done_(std::move(done)) {}

  const BootTime began_ = BootClock::now();
  const BootTime look_again_at_;
  const BootTime deadline_;
  const std::stop_token stop_;
  Done<bool> done_;
  bool woken_ = false;
  QueuedWaiter* waiter_ = nullptr;  ///< from its beginning to its end
  BootTime scheduled_at_ = never;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

/// The idle waits of all queues of one owner, who has a mutex and a thread. Every function but `make`
/// requires the mutex.
class IdleWaits {
 public:
  /// `attend` is called, under the mutex, when there is more to do than the thread may know of: a wait has
  /// ended, or the next will end earlier.
  IdleWaits(std::mutex& mutex, std::function<void()> attend) : mutex_(mutex), attend_(std::move(attend)) {}

  /// For WakeQueue::begin. Requires that the mutex is not held: a stop request takes it.
  [[nodiscard]] std::unique_ptr<IdleWait> make(BootTime look_again_at, BootTime deadline,
                                               const std::stop_token& stop, Done<bool> done);

  /// When end_due must be called at the latest.
  [[nodiscard]] BootTime next() const noexcept { return times_.empty() ? never : times_.begin()->first; }
  /// Ends the waits whose time has come.
  void end_due(BootTime now);

  [[nodiscard]] bool any_ended() const noexcept { return !ended_.empty(); }
  /// In the order of their ends; to be completed without the mutex.
  [[nodiscard]] std::vector<std::unique_ptr<IdleWait>> take_ended() { return std::exchange(ended_, {}); }

 private:
  friend class WakeQueue;
  void schedule(IdleWait& wait, BootTime at);
  void unschedule(IdleWait& wait);
  void end(IdleWait& wait, bool woken);

  std::mutex& mutex_;
  const std::function<void()> attend_;
  /// Never later than a wait's true end, maybe earlier: end_due looks.
  std::set<std::pair<BootTime, IdleWait*>> times_;
  std::vector<std::unique_ptr<IdleWait>> ended_;
};

}  // namespace holdfast::sys
