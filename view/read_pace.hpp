#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <holdfast/clock.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::view {

/// A part of all keys, chosen by their hash: `size` of 2^32, from `from` on, and round again at the end.
struct KeyWindow {
  std::uint32_t from = 0;
  std::uint64_t size = 0;
  [[nodiscard]] bool contains(std::string_view key) const noexcept;
};

/// One request to the store.
struct Reading {
  enum class What : std::uint8_t {
    probe,      ///< something that costs the store next to nothing: measures the way there and back
    lock_page,  ///< `cursor`
    owners,     ///< a page of owners: `cursor`
    task_page,  ///< `owner`, `cursor`
    locks,      ///< `keys`
    task,       ///< `owner`, `key` is its id
    queues,     ///< a page of the names of queues: `cursor`
    queue       ///< the counts of one: `key`
  };
  What what = What::probe;
  std::string owner = {};
  std::string key = {};
  std::vector<std::string> keys = {};
  std::string cursor = {};
  /// It is the first of a round.
  bool begins_round = false;
  /// Of a lock page: all locks have to be read, those too that are known and whose end would be heard.
  bool all_locks = true;
  /// Of a lock page that does not read all: these have to be read although they are known.
  KeyWindow due = {};
};

/// How a reading ended.
struct ReadingResult {
  bool answered = true;
  /// From the request to the answer.
  BootClock::duration took = {};
  /// How many times the request travels to the store and back.
  int round_trips = 1;
  std::string cursor = {};               ///< of the next page; empty on the last
  std::vector<std::string> owners = {};  ///< of a page of owners, or of the names of queues
};

/// What has been completed by a reading.
enum class Completed : std::uint8_t { nothing, locks, tasks, queues };

/// What to read next, and when; a pure machine.
///
/// A round reads all locks, then all owners and their tasks, page by page, then finds and counts all queues.
/// Rounds without tasks count the queues that are known, once a second at most. Hints come first: the locks
/// that may have changed, together, or the task is read by itself. A quarter of the budget is kept for hints
/// of locks, so that a grant that is heard is read at once, even after an expensive reading. All readings
/// together may use a share of the store's time. How much one uses is estimated: the time it took, minus the
/// shortest time that a probe took, which is the way there and back. The network and this machine only make
/// the estimate too high, a busy machine by much. So a page of locks, which is a bounded amount of work, is
/// not counted for more than the fastest quarter of the last pages took, and single locks not for more than
/// they can cost. Unused time accumulates up to `burst`, and an expensive reading is paid for afterwards, by
/// a pause.
///
/// Nothing is read while there are no viewers.
class ReadPace {
 public:
  struct Options {
    /// Of the store's time, for all readings.
    double share = 0.01;
    /// The same until the first round is complete, and after a long time without viewers: a viewer who comes
    /// to a large store should not wait a hundred times as long as reading it takes.
    double first_share = 0.1;
    /// As much of the store's time may be used at once after a pause.
    BootClock::duration burst = std::chrono::milliseconds(20);
    /// The same for hints of locks, out of the part that is kept for them.
    BootClock::duration hint_burst = std::chrono::milliseconds(5);
    /// Rounds begin this far apart, or further.
    BootClock::duration interval = std::chrono::milliseconds(500);
    /// All tasks, and all locks that are known, are read with every round, or this far apart if their changes
    /// are heard: those by other software are not. Each round reads a part of the known locks, so that none
    /// takes long, and new locks are found soon; together that uses at most half of the share.
    BootClock::duration heard_interval = std::chrono::seconds(10);
    /// Queues that are known are counted this far apart, or further: they use at most a quarter of the share.
    BootClock::duration queue_interval = std::chrono::seconds(1);
    /// Finding queues is a scan of all keys, as finding tasks is. Where changes are heard, a new queue is
    /// heard too, so that they are found this far apart, or further.
    BootClock::duration find_queues_interval = std::chrono::minutes(1);
    /// So many queues are counted; the others are not.
    std::size_t max_queues = 1000;
    /// Single readings per second.
    int hints_per_second = 200;
  };
  /// How many hints wait at most, of locks and of tasks; beyond that, the next round has to find the changes.
  static constexpr std::size_t max_hints = 1000;
  /// How many locks are read at once because of hints.
  static constexpr std::size_t hints_at_once = 250;

  ReadPace(const Options& options, BootTime now);

  void set_viewers(std::size_t count, BootTime now);
  /// Whether releases of locks and changes of tasks are heard, as hints.
  void set_heard(bool locks, bool tasks) noexcept {
    locks_heard_ = locks;
    tasks_heard_ = tasks;
  }
  void hint_lock(std::string_view key);
  /// The same for a lock that was acquired: if too many wait, the next round finds it, without reading all.
  void hint_grant(std::string_view key);
  /// Grants may have been missed: the next round begins as soon as the budget allows.
  void hint_grants() noexcept { round_is_urgent_ = true; }
  void hint_task(std::string_view owner, std::string_view id);
  /// There is a queue of this name: it is counted from now on.
  void know_queue(std::string_view name);
  /// Anything may have changed: the next round begins as soon as the budget allows.
  void hint_anything() noexcept { round_is_urgent_ = tasks_are_urgent_ = locks_are_urgent_ = true; }

  /// Returns when to read next; `never` if there is nothing to read until another call changes that.
  [[nodiscard]] BootTime next_at(BootTime now) const noexcept;
  /// Returns what to read. To be called when next_at() has come; finished() must follow.
  [[nodiscard]] Reading next(BootTime now);
  [[nodiscard]] Completed finished(const Reading& reading, const ReadingResult& result, BootTime now);

 private:
  /// Each once, in their order.
  template <class T>
  class Hints {
   public:
    [[nodiscard]] bool empty() const noexcept { return queue_.empty(); }
    [[nodiscard]] bool full() const noexcept { return queue_.size() >= max_hints; }
    void clear() {
      queue_.clear();
      known_.clear();
    }
    void add(T hint) {
      if (known_.insert(hint).second) queue_.push_back(std::move(hint));
    }
    [[nodiscard]] T take() {
      auto hint = std::move(queue_.front());
      queue_.pop_front();
      known_.erase(hint);
      return hint;
    }

   private:
    std::deque<T> queue_;
    std::set<T> known_;
  };
  using OwnerAndId = std::pair<std::string, std::string>;
  enum class Part : std::uint8_t { none, locks, tasks, queues };

  void refill(BootTime now) noexcept;
  void charge(const Reading& reading, const ReadingResult& result) noexcept;
  [[nodiscard]] double share() const noexcept;
  /// What a page of locks costs, which took this long.
  [[nodiscard]] BootClock::duration cost_of_page(BootClock::duration took) noexcept;
  [[nodiscard]] bool tasks_are_due(BootTime now) const noexcept;
  void begin_locks(BootTime now) noexcept;
  [[nodiscard]] bool queues_are_due(BootTime now) const noexcept;
  void begin_queues(bool find);
  [[nodiscard]] Completed advance_queues(const Reading& reading, const ReadingResult& result, BootTime now);
  [[nodiscard]] BootClock::duration shortest_way() const noexcept;
  /// When this allowance, refilled at this share, is not overdrawn any more.
  [[nodiscard]] BootTime affordable_at(BootTime now, BootClock::duration allowance,
                                       double share_of_store) const noexcept;
  /// When there is time for rounds and tasks, and for hints of locks.
  [[nodiscard]] BootTime rounds_affordable_at(BootTime now) const noexcept;
  [[nodiscard]] BootTime hints_affordable_at(BootTime now) const noexcept;
  [[nodiscard]] Completed advance(const Reading& reading, const ReadingResult& result, BootTime now);

  const Options options_;
  std::size_t viewers_ = 0;

  // The budget.
  BootTime refilled_at_;
  BootClock::duration allowance_, hint_allowance_;
  std::array<BootClock::duration, 8> probes_{};
  std::size_t probe_count_ = 0;
  /// What the last pages of locks took, of rounds that read all of them, and of others.
  struct Pages {
    std::array<BootClock::duration, 16> took{};
    std::size_t count = 0;
  };
  std::array<Pages, 2> pages_{};
  BootTime probe_at_;

  // Hints.
  Hints<std::string> lock_hints_;
  Hints<OwnerAndId> task_hints_;
  BootTime next_hint_at_;

  // The round.
  Part part_ = Part::none;
  std::string cursor_;        ///< of lock pages, or of pages of owners
  bool more_owners_ = false;  ///< after `owners_`
  std::deque<std::string> owners_;
  std::string task_cursor_;      ///< of the first of `owners_`
  bool queues_are_lost_ = true;  ///< changes were not heard: they have to be found again
  BootTime queues_found_at_ = {};
  bool finds_queues_ = false;           ///< rather than counting `queues_`
  bool is_after_tasks_ = false;         ///< the queues of this round are found, and part of the cost of tasks
  std::deque<std::string> queues_;      ///< to be counted in this round
  std::set<std::string> found_queues_;  ///< so far
  std::set<std::string, std::less<>> known_queues_;
  BootTime queues_at_ = {};  ///< when they were last counted
  BootTime round_at_;
  BootTime whole_at_ = {};  ///< when a round with tasks was last completed; the epoch: never
  bool locks_heard_ = false, tasks_heard_ = false;
  bool tasks_are_urgent_ = true, locks_are_urgent_ = true;
  bool is_first_round_ = true;               ///< or the first after a long time without viewers
  bool all_locks_ = true;                    ///< of this round
  BootClock::duration scan_cost_ = {};       ///< of the store's time: finding all locks without reading them
  BootClock::duration locks_cost_ = {};      ///< of the store's time, in this round
  BootClock::duration tasks_cost_ = {};      ///< of the store's time, the last time that all were read
  BootClock::duration queues_cost_ = {};     ///< of the store's time, the last time that they were counted
  BootClock::duration all_locks_cost_ = {};  ///< of the store's time, the last time that all were read
  BootTime locks_at_ = {};                   ///< when the last round began
  KeyWindow due_;                            ///< in this round
  bool round_is_urgent_ = false;

  // The store does not answer.
  BootTime retry_at_;
  BootClock::duration pause_ = {};
};

}  // namespace holdfast::view
