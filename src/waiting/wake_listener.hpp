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

/// Waits on a WakeTable for which no thread sleeps: one thread listens for all of this process.
///
/// Protocol. A listener is counted before its waiter compares the key's word with what it saw when it began
/// to watch. A releaser changes the word, then looks whether anybody listens. So either the waiter sees that
/// the word has changed, or the releaser tells: it counts the key's slot, then its word's news, then rings
/// the bell, in this order; the thread reads them in the opposite order, and sleeps only if the bell has not
/// changed since. A thread that is busy needs no system call of the releaser.
///
/// A count tells how often, not for which of the keys that share the slot: so the first waiter of each of
/// them is woken, as many times, and some look for nothing. A process that is killed stays counted, which
/// only costs later releases a little.
class WakeListener : public std::enable_shared_from_this<WakeListener> {
  /// The waiters of one key.
  struct Channel {
    Channel(Wakes wakes, IdleWaits& waits, std::uint32_t count) : queue(wakes, waits), seen(count) {}
    WakeQueue queue;
    std::uint32_t seen;  ///< of its slot's count
  };
  /// By word and hash, so that those of a word are beside each other.
  using Channels = std::map<std::pair<std::size_t, std::uint64_t>, Channel>;

 public:
  explicit WakeListener(std::shared_ptr<MappedWakeWords> words);

  /// Who waits: for which key, since when in the order of all, and what it saw.
  class Waiter {
   public:
    Waiter(WakeListener& listener, WakeWords::Place its_place, Wakes its_wakes) noexcept
        : place(its_place),
          wakes(its_wakes),
          seen(listener.words_->word_of(place).changes.load()),
          number_(++listener.last_number_) {}

    const WakeWords::Place place;
    const Wakes wakes;
    std::uint32_t seen;  ///< of its word, when it last had reason to try

   private:
    friend class WakeListener;
    const std::uint64_t number_;
    // While it waits.
    Channels::iterator channel_;
    WakeQueue::Place queued_;
  };

  /// False if the machine has no thread to give.
  [[nodiscard]] bool start();
  /// Completes `woken` on the thread, or inline. Requires `start`. The waiter must live until then.
  void begin_wait(Waiter& waiter, BootTime look_again_at, BootTime deadline, const std::stop_token& stop,
                  Done<bool> woken);
  /// Ends the thread; requires that nobody waits. On a thread of the library it does not wait for it.
  void stop();
  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

  /// For releasers: tells the listeners of all processes.
  static void tell(const MappedWakeWords& words, WakeWords::Place place) noexcept;

 private:
  void enter(Waiter& waiter);
  void leave(Waiter& waiter);
  void run();
  /// Wakes those for whom there is news.
  void hear();
  /// Ends the thread's sleep.
  void rouse() noexcept;

  const os::ProcessIdentity process_;
  const std::shared_ptr<MappedWakeWords> words_;
  /// Tells our thread from those of other processes that sleep on the same bell.
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
