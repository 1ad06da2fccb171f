#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "os/process.hpp"
#include "waiting/wake_queue.hpp"
#include "waiting/wake_words.hpp"

namespace holdfast::waiting {

/// Waits on a WakeTable without a sleeping thread per wait: one thread listens for the whole process.
///
/// Protocol. A listener is counted before its waiter compares the key's word with what it saw when it began
/// to watch. A releaser changes the word, then reads the number of listeners. So either the waiter sees the
/// changed word, or the releaser notifies: it increments the key's slot, then its word's `news`, then the
/// `bell`, in this order. The thread reads them in the opposite order, and sleeps only if `bell` has not
/// changed since. If the thread is awake, the releaser needs no system call.
///
/// A slot counts releases for all keys that share it. So the first waiters of each of these keys are woken,
/// as many as there were releases, and some retry in vain. A killed process stays counted as a listener,
/// which only makes later releases slightly slower.
class WakeListener : public std::enable_shared_from_this<WakeListener> {
  /// The waiters of one key.
  struct Channel {
    Channel(Wakes wakes, IdleWaits& waits, std::uint32_t count) : queue(wakes, waits), seen(count) {}
    WakeQueue queue;
    std::uint32_t seen;  ///< of its slot's count
  };
  /// Ordered by word and hash, so that channels of one word are adjacent.
  using Channels = std::map<std::pair<std::size_t, std::uint64_t>, Channel>;

 public:
  explicit WakeListener(std::shared_ptr<MappedWakeWords> words);

  /// One waiter: its key, its place in the order of arrival, and the word's last value it saw.
  class Waiter {
   public:
    Waiter(WakeListener& listener, WakeWords::Place its_place, Wakes its_wakes) noexcept
        : place(its_place),
          wakes(its_wakes),
          seen(listener.words_->word_of(place).changes.load()),
          number_(++listener.last_number_) {}

    const WakeWords::Place place;
    const Wakes wakes;
    std::uint32_t seen;  ///< its word's value at its last reason to try

   private:
    friend class WakeListener;
    const std::uint64_t number_;
    // While it waits.
    Channels::iterator channel_;
    WakeQueue::Place queued_;
  };

  /// Waits for changes of any key.
  class Follower {
   public:
    explicit Follower(WakeListener& listener) noexcept : seen_(listener.all_changes()) {}

   private:
    friend class WakeListener;
    std::uint64_t seen_;  ///< all_changes() at its last report
    // While it waits.
    Channels::iterator channel_;
    WakeQueue::Place queued_;
  };

  /// False if the machine has no thread to give.
  [[nodiscard]] bool start();
  /// Completes `woken` on the thread, or inline. Requires `start`. The waiter must live until then.
  void begin_wait(Waiter& waiter, BootTime look_again_at, BootTime deadline, const std::stop_token& stop,
                  Done<bool> woken);
  /// Completes `woken` when a word has changed since the follower's last report. As begin_wait.
  void begin_follow(Follower& follower, BootTime deadline, const std::stop_token& stop, Done<bool> woken);
  /// Ends the thread; requires that there are no waiters. On a thread of the library it does not join it.
  void stop();
  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

  /// For releasers: notifies the listeners of all processes.
  static void notify(const MappedWakeWords& words, WakeWords::Place place) noexcept;

 private:
  void enter(Waiter& waiter);
  void leave(Waiter& waiter) { leave(waiter.channel_, waiter.queued_); }
  void leave(Channels::iterator channel, WakeQueue::Place queued);
  /// The changes of all words, whether listeners were notified of them or not.
  [[nodiscard]] std::uint64_t all_changes() const noexcept;
  void run();
  /// Wakes the waiters whose slots have changed.
  void collect_changes();
  /// Ends the thread's sleep.
  void rouse() noexcept;

  const os::ProcessIdentity process_;
  const std::shared_ptr<MappedWakeWords> words_;
  /// Distinguishes our thread from those of other processes that sleep on the same `bell`.
  const std::uint32_t own_mask_;
  std::atomic<std::uint64_t> last_number_ = 0;

  std::mutex mutex_;
  IdleWaits waits_;
  Channels channels_;
  std::array<std::uint32_t, WakeWords::word_count> seen_news_{};
  bool asleep_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace holdfast::waiting
