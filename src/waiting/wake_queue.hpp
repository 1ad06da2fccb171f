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

/// Whom a message is for.
enum class Wakes : std::uint8_t {
  one,  ///< the waiter that came first: what there is to get, only one can have
  all,  ///< everybody: there is something to see
};

struct QueuedWaiter {
  QueuedWaiter(WakeQueue& its_queue, std::uint64_t its_number) : queue(its_queue), number(its_number) {}

  WakeQueue& queue;
  const std::uint64_t number;  ///< its place: who came first has the lowest
  std::condition_variable changed;
  os::Event* polls = nullptr;    ///< it sleeps in poll(2), where only this reaches it
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

}  // namespace holdfast::waiting
