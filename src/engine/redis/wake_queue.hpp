#pragma once

#include <condition_variable>
#include <holdfast/clock.hpp>
#include <list>
#include <mutex>
#include <stop_token>

namespace holdfast::redis {

/// The waiters of one channel, in the order they came. Guarded by one mutex, which its owner has; every
/// function requires it.
class WakeQueue {
 public:
  struct Waiter {
    std::condition_variable changed;
    bool woken = false;            ///< and did not notice yet
    BootTime first_since = never;  ///< when it became the first in the queue
  };
  using Place = std::list<Waiter>::iterator;

  [[nodiscard]] bool empty() const noexcept { return waiters_.empty(); }
  [[nodiscard]] Place enter();
  /// A wake-up that it did not notice goes to the next.
  void leave(Place place);

  /// Wakes the first that is not awake already.
  void wake_one();

  /// Sleeps until woken (true), `deadline` or a stop request (false), or until `look_again_at` if this waiter
  /// looks for all or, as long as `alone` is true, for itself. Returns without the mutex.
  bool sleep(std::unique_lock<std::mutex>& lock, Place place, BootTime look_again_at, BootTime deadline,
             const std::stop_token& stop, const bool& alone);

 private:
  std::list<Waiter> waiters_;
};

}  // namespace holdfast::redis
