#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <holdfast/clock.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::view {

/// One request to the store.
struct Reading {
  enum class What : std::uint8_t {
    probe,      ///< something that costs the store next to nothing: measures the way there and back
    lock_page,  ///< `cursor`
    owners,     ///< a page of owners: `cursor`
    task_page,  ///< `owner`, `cursor`
    lock,       ///< `key`
    task        ///< `owner`, `key` is its id
  };
  What what = What::probe;
  std::string owner = {};
  std::string key = {};
  std::string cursor = {};
  /// It is the first of a round.
  bool begins_round = false;
  /// Of a lock page: all locks have to be read, those too that are known and whose end would be heard.
  bool all_locks = true;
};

/// How a reading ended.
struct ReadingResult {
  bool answered = true;
  /// From the request to the answer.
  BootClock::duration took = {};
  /// How many times the request travels to the store and back.
  int round_trips = 1;
  std::string cursor = {};               ///< of the next page; empty on the last
  std::vector<std::string> owners = {};  ///< of a page of owners
};

/// What has been completed by a reading.
enum class Completed : std::uint8_t { nothing, locks, tasks };

/// What to read next, and when; a pure machine.
///
/// A round reads all locks, then all owners and their tasks, page by page. Hints come first: the lock or the
/// task is read by itself. All readings together may use a share of the store's time. How much one uses is
/// estimated: the time it took, minus the shortest time that a probe took, which is the way there and back.
/// The network and this machine only make the estimate too high. Unused time accumulates up to `burst`, and
/// an expensive reading is paid for afterwards, by a pause.
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
    /// Rounds begin this far apart, or further.
    BootClock::duration interval = std::chrono::milliseconds(500);
    /// All tasks, and all locks that are known, are read with every round, or this far apart if their changes
    /// are heard: those by other software are not.
    BootClock::duration heard_interval = std::chrono::seconds(10);
    /// Single readings per second.
    int hints_per_second = 200;
  };
  /// How many hints wait at most; beyond that, the next round has to find the changes.
  static constexpr std::size_t max_hints = 1000;

  ReadPace(const Options& options, BootTime now);

  void set_viewers(std::size_t count, BootTime now);
  /// Whether releases of locks and changes of tasks are heard, as hints.
  void set_heard(bool locks, bool tasks) noexcept {
    locks_heard_ = locks;
    tasks_heard_ = tasks;
  }
  void hint_lock(std::string_view key);
  void hint_task(std::string_view owner, std::string_view id);
  /// Anything may have changed: the next round begins as soon as the budget allows.
  void hint_anything() noexcept { round_is_urgent_ = tasks_are_urgent_ = locks_are_urgent_ = true; }

  /// Returns when to read next; `never` if there is nothing to read until another call changes that.
  [[nodiscard]] BootTime next_at(BootTime now) const noexcept;
  /// Returns what to read. To be called when next_at() has come; finished() must follow.
  [[nodiscard]] Reading next(BootTime now);
  [[nodiscard]] Completed finished(const Reading& reading, const ReadingResult& result, BootTime now);

 private:
  struct Hint {
    Reading::What what;
    std::string owner, key;
    friend auto operator<=>(const Hint&, const Hint&) = default;
  };
  enum class Part : std::uint8_t { none, locks, tasks };

  void add_hint(Hint hint);
  void refill(BootTime now) noexcept;
  void charge(const Reading& reading, const ReadingResult& result) noexcept;
  [[nodiscard]] double share(BootTime now) const noexcept;
  [[nodiscard]] bool tasks_are_due(BootTime now) const noexcept;
  [[nodiscard]] BootClock::duration shortest_way() const noexcept;
  [[nodiscard]] bool may_read_hint(BootTime now) const noexcept;
  [[nodiscard]] BootTime affordable_at(BootTime now) const noexcept;
  [[nodiscard]] Completed advance(const Reading& reading, const ReadingResult& result, BootTime now);

  const Options options_;
  std::size_t viewers_ = 0;

  // The budget.
  BootTime refilled_at_;
  BootClock::duration allowance_;
  std::array<BootClock::duration, 8> probes_{};
  std::size_t probe_count_ = 0;
  BootTime probe_at_;

  // Hints.
  std::deque<Hint> hints_;
  std::set<Hint> known_hints_;
  BootTime next_hint_at_;

  // The round.
  Part part_ = Part::none;
  std::string cursor_;        ///< of lock pages, or of pages of owners
  bool more_owners_ = false;  ///< after `owners_`
  std::deque<std::string> owners_;
  std::string task_cursor_;  ///< of the first of `owners_`
  BootTime round_at_;
  BootTime whole_at_ = {};  ///< when a round with tasks was last completed; the epoch: never
  bool locks_heard_ = false, tasks_heard_ = false;
  bool tasks_are_urgent_ = true, locks_are_urgent_ = true;
  bool all_locks_ = true;                ///< of this round
  BootClock::duration tasks_cost_ = {};  ///< of the store's time, the last time that all were read
  BootTime all_locks_at_ = {};           ///< when a round that read all locks began
  bool round_is_urgent_ = false;

  // The store does not answer.
  BootTime retry_at_;
  BootClock::duration pause_ = {};
};

}  // namespace holdfast::view
