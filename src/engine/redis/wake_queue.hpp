#pragma once

#include <condition_variable>
#include <functional>
#include <holdfast/clock.hpp>
#include <list>
#include <mutex>
#include <stop_token>

#include "sys/event.hpp"

namespace holdfast::redis {

/// The waiters of one channel, in the order they came. Guarded by one mutex, which its owner has; every
/// function requires it.
class WakeQueue {
 public:
  struct Waiter {
    std::condition_variable changed;
    sys::Event* polls = nullptr;   ///< it sleeps in poll(2), where only this reaches it
    bool woken = false;            ///< and did not notice yet
    BootTime first_since = never;  ///< when it became the first in the queue

    /// Ends its pause.
    void poke() noexcept {
      changed.notify_one();
      if (polls != nullptr) polls->set();
    }
  };
  using Place = std::list<Waiter>::iterator;
  using Lock = std::unique_lock<std::mutex>;
  /// Lets time pass until the waiter is poked, or that time; may end early.
  using Pause = std::function<void(Lock&, Waiter&, BootTime until)>;

  [[nodiscard]] bool empty() const noexcept { return waiters_.empty(); }
  [[nodiscard]] Place enter();
  /// A wake-up that it did not notice goes to the next.
  void leave(Place place);

  /// Wakes the first that is not awake already.
  void wake_one();

  /// Sleeps until woken (true), `deadline` or a stop request (false), or until `look_again_at` if this waiter
  /// looks for all or, as long as `alone` is true, for itself.
  bool sleep(Lock& lock, Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop,
             const bool& alone, const Pause& pause);

 private:
  std::list<Waiter> waiters_;
};

}  // namespace holdfast::redis
