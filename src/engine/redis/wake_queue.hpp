#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <list>
#include <mutex>
#include <stop_token>

#include "sys/event.hpp"

namespace holdfast::redis {

/// Whom a message is for.
enum class Wakes : std::uint8_t {
  one,  ///< the waiter that came first: what there is to get, only one can have
  all,  ///< everybody: there is something to see
};

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

  explicit WakeQueue(Wakes wakes) noexcept : wakes_(wakes) {}

  [[nodiscard]] bool empty() const noexcept { return waiters_.empty(); }
  [[nodiscard]] Place enter();
  /// A wake-up for one that it did not notice goes to the next.
  void leave(Place place);

  /// Wakes the first that is not awake already; or all.
  void wake();
  /// Wakes another in place of one that was woken and has no use for it. Where all are, nobody.
  void pass_on();

  /// Sleeps until woken (true), `deadline` or a stop request (false), or until `look_again_at` if this waiter
  /// looks for all or, where all are woken or as long as `alone` is true, for itself.
  bool sleep(Lock& lock, Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop,
             const bool& alone, const Pause& pause);

 private:
  const Wakes wakes_;
  std::list<Waiter> waiters_;
};

}  // namespace holdfast::redis
