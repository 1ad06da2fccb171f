#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "os/event.hpp"

namespace holdfast::waiting {

class WakeQueue;
struct QueuedWaiter;

/// One wait without a sleeping thread. It ends once, under the mutex of its owner, by the first of three
/// events: a wake-up, its time or a stop request. So a wake-up is never given to a wait that ends for another
/// reason. It is completed after that, without the mutex.
class IdleWait {
 public:
  void complete() {
    on_stop_.reset();  // after this no stop request on another thread uses this object
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

/// The idle waits of all queues of one owner, which has a mutex and a thread. Every function except `make`
/// requires the mutex.
class IdleWaits {
 public:
  /// `attend` is called under the mutex when the thread has new work: a wait has ended, or the next one will
  /// end earlier.
  IdleWaits(std::mutex& mutex, std::function<void()> attend) : mutex_(mutex), attend_(std::move(attend)) {}

  /// For WakeQueue::begin. Requires that the mutex is not held: a stop request takes it.
  [[nodiscard]] std::unique_ptr<IdleWait> make(BootTime look_again_at, BootTime deadline,
                                               const std::stop_token& stop, Done<bool> done);

  /// The latest time for the next call of end_due.
  [[nodiscard]] BootTime next() const noexcept { return times_.empty() ? never : times_.begin()->first; }
  /// Ends the waits whose time has come; those that end to poll not before `polls_from`. Returns whether one
  /// ended to poll.
  bool end_due(BootTime now, BootTime polls_from = {});

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
  /// Never later than a wait's true end, maybe earlier: end_due checks.
  std::set<std::pair<BootTime, IdleWait*>> times_;
  std::vector<std::unique_ptr<IdleWait>> ended_;
};

/// Which waiters a message wakes.
enum class Wakes : std::uint8_t {
  one,  ///< the waiter that came first: only one can get the lock
  all,  ///< all waiters: each can read the change
};

struct QueuedWaiter {
  QueuedWaiter(WakeQueue& its_queue, std::uint64_t its_number) : queue(its_queue), number(its_number) {}

  WakeQueue& queue;
  const std::uint64_t number;  ///< its place: the first arrival has the lowest
  std::condition_variable changed;
  os::Event* polls = nullptr;      ///< it sleeps in poll(2), where only this reaches it
  bool woken = false;              ///< and has not noticed yet
  BootTime first_since = never;    ///< when it became the first in the queue
  BootClock::duration pause{};     ///< while it waits: from the wait's beginning to its next poll
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
/// Polling, where one waiter is woken at a time: a waiter that polls does so for all, and the pauses of all
/// others restart. So the channel is polled at the pace of the waiter with the shortest pause, whatever the
/// number and order of waiters; that waiter's next pause is longer if its policy demands it. The first in the
/// queue also polls at exactly the time it asked for, which may be when the lock expires.
class WakeQueue {
 public:
  using Waiters = std::map<std::uint64_t, QueuedWaiter>;
  using Place = Waiters::iterator;
  using Lock = std::unique_lock<std::mutex>;
  /// Sleeps until the waiter is poked, or until that time; may return early.
  using Pause = std::function<void(Lock&, QueuedWaiter&, BootTime until)>;

  WakeQueue(Wakes wakes, IdleWaits& idle_waits) noexcept : wakes_(wakes), idle_waits_(idle_waits) {}

  [[nodiscard]] bool empty() const noexcept { return waiters_.empty(); }
  /// At the end of the queue.
  [[nodiscard]] Place enter() { return enter(waiters_.empty() ? 0 : waiters_.rbegin()->first + 1); }
  /// At a place of the caller's choice, which must be free.
  [[nodiscard]] Place enter(std::uint64_t number);
  /// An unnoticed wake-up for one waiter goes to the next. Requires that this waiter does not wait.
  void leave(Place place);

  /// Wakes as many of the first waiters that are not awake as there were reasons; or all.
  void wake(std::size_t reasons = 1);
  /// Wakes this one, out of turn.
  void wake(Place place) { wake(place->second); }
  /// Wakes another waiter in place of one that has no use for its wake-up. No effect if all are woken.
  void pass_on(Place place);

  /// Whether waiters cannot rely on being woken: then each polls for itself.
  [[nodiscard]] bool silent() const noexcept { return silent_; }
  void set_silent(bool silent);

  /// Sleeps until woken (true), `deadline` or a stop request (false), or until this waiter's turn to poll
  /// (false): at `look_again_at`, or later if another polls for it before.
  bool sleep(Lock& lock, Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop,
             const Pause& pause);
  /// The same without a thread. Returns the wait if it has already ended: then the caller must complete it.
  [[nodiscard]] std::unique_ptr<IdleWait> begin(Place place, std::unique_ptr<IdleWait> wait);

 private:
  friend class IdleWaits;
  void begin_pause(QueuedWaiter& waiter, BootTime began, BootTime look_again_at, BootTime deadline);
  void end_pause(QueuedWaiter& waiter);
  /// When a waiter polls if nothing happens. `never`: others poll for it.
  [[nodiscard]] BootTime look_at(const QueuedWaiter& waiter, BootTime began, BootTime look_again_at) const;
  /// When a waiter's idle wait ends if nothing happens, if it may poll from this time on; whether that is
  /// now.
  [[nodiscard]] BootTime ends_at(const QueuedWaiter& waiter, BootTime polls_from = {}) const;
  [[nodiscard]] bool is_over(const QueuedWaiter& waiter, BootTime now);
  /// Updates the end of its wait, which may now be earlier.
  void reconsider(QueuedWaiter& waiter);
  void wake(QueuedWaiter& waiter);
  /// Returns whether it was woken, and clears that.
  [[nodiscard]] bool notice(QueuedWaiter& waiter);

  const Wakes wakes_;
  IdleWaits& idle_waits_;
  bool silent_ = false;
  Waiters waiters_;
  std::map<std::uint64_t, QueuedWaiter*> not_woken_;
  /// The waiters that poll before they give up, the shortest pause first; empty if each polls for itself.
  std::map<std::pair<BootClock::duration, std::uint64_t>, QueuedWaiter*> pauses_;
  BootTime looked_at_{};  ///< when one of them last tried, or was about to
};

}  // namespace holdfast::waiting
