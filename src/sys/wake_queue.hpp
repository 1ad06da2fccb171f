#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "sys/event.hpp"
#include "sys/idle_waits.hpp"

namespace holdfast::sys {

/// Whom a message is for.
enum class Wakes : std::uint8_t {
  one,  ///< the waiter that came first: what there is to get, only one can have
  all,  ///< everybody: there is something to see
};

class WakeQueue;

struct QueuedWaiter {
  QueuedWaiter(WakeQueue& its_queue, std::uint64_t its_number) : queue(its_queue), number(its_number) {}

  WakeQueue& queue;
  const std::uint64_t number;  ///< its place: who came first has the lowest
  std::condition_variable changed;
  Event* polls = nullptr;        ///< it sleeps in poll(2), where only this reaches it
  bool woken = false;            ///< and did not notice yet
  BootTime first_since = never;  ///< when it became the first in the queue
  BootClock::duration pause{};   ///< while it waits: from the wait's beginning to when it wants to look again
  std::unique_ptr<IdleWait> idle;  ///< its wait, if no thread sleeps for it

  /// Ends its pause.
  void poke() noexcept {
    changed.notify_one();
    if (polls != nullptr) polls->set();
  }
};

/// The waiters of one channel, in the order they came. Guarded by one mutex, which its owner has; every
/// function requires it. No function takes longer than the logarithm of their number unless it concerns all.
///
/// Looking again, where one is woken at a time: whoever looks does so for all, and all the others' pauses
/// begin anew. So the channel is looked at when the waiter with the shortest pause wants it, however many
/// there are and whoever came first; that one has a longer pause afterwards if its policy says so. The first
/// in the queue also looks at the very time that it wants, which may be when the lock expires.
class WakeQueue {
 public:
  using Waiters = std::map<std::uint64_t, QueuedWaiter>;
  using Place = Waiters::iterator;
  using Lock = std::unique_lock<std::mutex>;
  /// Lets time pass until the waiter is poked, or that time; may end early.
  using Pause = std::function<void(Lock&, QueuedWaiter&, BootTime until)>;

  WakeQueue(Wakes wakes, IdleWaits& idle_waits) noexcept : wakes_(wakes), idle_waits_(idle_waits) {}

  [[nodiscard]] bool empty() const noexcept { return waiters_.empty(); }
  /// At the end of the queue.
  [[nodiscard]] Place enter() { return enter(waiters_.empty() ? 0 : waiters_.rbegin()->first + 1); }
  /// At a place of the caller's choice, which must be free.
  [[nodiscard]] Place enter(std::uint64_t number);
  /// A wake-up for one that it did not notice goes to the next. Requires that it does not wait.
  void leave(Place place);

  /// Wakes the first that is not awake already, as many as there were reasons; or all.
  void wake(std::size_t reasons = 1);
  /// Wakes this one, out of turn.
  void wake(Place place) { wake(place->second); }
  /// Wakes another in place of one that was woken and has no use for it. Where all are, nobody.
  void pass_on(Place place);

  /// Whether its waiters cannot rely on being woken: then everyone looks again for itself.
  [[nodiscard]] bool silent() const noexcept { return silent_; }
  void set_silent(bool silent);

  /// Sleeps until woken (true), `deadline` or a stop request (false), or until it is this waiter's turn to
  /// look again (false): at `look_again_at`, or later if another looks for it before.
  bool sleep(Lock& lock, Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop,
             const Pause& pause);
  /// The same without a thread. Gives the wait back if it has ended already: then it must be completed.
  [[nodiscard]] std::unique_ptr<IdleWait> begin(Place place, std::unique_ptr<IdleWait> wait);

 private:
  friend class IdleWaits;
  void begin_pause(QueuedWaiter& waiter, BootTime began, BootTime look_again_at, BootTime deadline);
  void end_pause(QueuedWaiter& waiter);
  /// When a waiter looks again if nothing happens. `never`: others do.
  [[nodiscard]] BootTime look_at(const QueuedWaiter& waiter, BootTime began, BootTime look_again_at) const;
  /// When a waiter's idle wait ends if nothing happens; whether that is now.
  [[nodiscard]] BootTime ends_at(const QueuedWaiter& waiter) const;
  [[nodiscard]] bool is_over(const QueuedWaiter& waiter, BootTime now);
  /// Its time may be earlier than it knows.
  void reconsider(QueuedWaiter& waiter);
  void wake(QueuedWaiter& waiter);
  /// Whether it was woken, and with that it is not any more.
  [[nodiscard]] bool notice(QueuedWaiter& waiter);

  const Wakes wakes_;
  IdleWaits& idle_waits_;
  bool silent_ = false;
  Waiters waiters_;
  std::map<std::uint64_t, QueuedWaiter*> not_woken_;
  /// Of those that wait and want to look again before they give up: the shortest pause first.
  std::map<std::pair<BootClock::duration, std::uint64_t>, QueuedWaiter*> pauses_;
  BootTime looked_at_{};  ///< when one of them last tried, or was about to
};

}  // namespace holdfast::sys
