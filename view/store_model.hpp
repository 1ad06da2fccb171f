#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "view/snapshot.hpp"

namespace holdfast::view {

/// A time by both clocks of this machine.
struct Moment {
  BootTime boot = {};
  WallTime wall = {};
};

/// Returns what stands for an owner in events of a queue and of its tasks: "queue render".
[[nodiscard]] std::string queue_owner(std::string_view queue);

/// When a request was sent and answered. What the answer says was so at some time between them.
struct Exchange {
  BootTime sent = {};
  Moment answered = {};
};

/// What a store holds, put together from pages, single readings and hints; a pure machine.
///
/// A *round* reads all locks, then all tasks (not every round): begin, pages, end. Rows that a round did not
/// find are removed at its end, unless they were read by themselves after it began. Events are differences
/// between what was known and what is read; those of the first round are not reported, since nothing was
/// known before.
///
/// Only the store says that a lock has ended: one whose lease has expired since it was read may have been
/// renewed unseen, and the engine's clock is a guess.
class StoreModel {
 public:
  explicit StoreModel(std::string engine, const Limits& limits = {});

  void begin_round(BootTime now);
  void add_locks(std::span<const LockRow> rows, const Exchange& exchange);
  /// These locks are still stored, and were not read.
  void see_locks(std::span<const std::string> keys, BootTime sent);
  /// Returns whether a lock need not be read: its end would have been heard, and its lease is far from its
  /// end. Only where changes are heard.
  [[nodiscard]] bool is_fresh(std::string_view key, const Moment& now) const noexcept;
  /// All lock pages of the round were added.
  void end_locks(const Moment& now);
  void add_tasks(std::span<const TaskRow> rows, const Exchange& exchange);
  /// Stored tasks of a page that are invalid.
  void add_unreadable_tasks(std::size_t count);
  /// The tasks of this owner could not be read: those that are known stay.
  void keep_tasks_of(std::string_view owner, BootTime sent);
  /// The user of the store may not read tasks: until a round finds otherwise none is known, nor that there
  /// are none.
  void refuse_tasks();
  /// All task pages of the round were added.
  void end_tasks(const Moment& now);

  /// A queue that was counted; `row` is empty if nothing of it is stored. Returns how many more tasks are
  /// kept as failed than when it was counted before: for add_failed_tasks().
  std::size_t set_queue(std::string_view name, const std::optional<QueueRow>& row, const Exchange& exchange);
  /// Tasks of a queue that failed, for the events: some that were read, and so many others.
  void add_failed_tasks(std::string_view queue, std::span<const TaskRow> newest_first, std::size_t beyond,
                        const Moment& now);
  /// Whether the user of the store may not read queues.
  void set_queues_refused(bool refused) noexcept { queues_refused_ = refused; }
  /// All queues of the round were counted, but for so many that are beyond the limit.
  void end_queues(std::size_t beyond);

  /// A single reading; `row` is empty if the lock is not held, or the task not there.
  void set_lock(std::string_view key, const std::optional<LockRow>& row, const Exchange& exchange);
  void set_task(std::string_view owner, std::string_view id, const std::optional<TaskRow>& row,
                const Exchange& exchange);
  /// Of locks that are known; others are ignored.
  void set_waiters(std::string_view key, std::optional<std::uint32_t> count);

  /// Hints: how a lock that the next reading finds gone has ended.
  void hear_release(std::string_view key, BootTime now);
  void hear_break(std::string_view key, BootTime now);
  /// An event that is not a difference, such as a refused write. Its sequence and time are set here.
  void report(Event event, const Moment& now);
  void set_heard(bool heard) noexcept { heard_ = heard; }
  /// There is no viewer: until the next reading, what happens is neither read nor heard.
  void set_unwatched(BootTime now) noexcept { unwatched_at_ = now; }

  void set_reachable(const Moment& now);
  /// `error`: one line, without secrets.
  void set_unreachable(ErrorCode code, std::string_view error, const Moment& now);

  /// Returns the keys of locks whose lease has expired since they were read, each once per lease: they should
  /// be read again.
  [[nodiscard]] std::vector<std::string> take_overdue(const Moment& now, std::size_t at_most);
  /// Returns what is known at this time.
  [[nodiscard]] Snapshot snapshot(const Moment& now);

 private:
  /// The engine's wall clock minus this machine's boot clock is between these: a lock was granted before the
  /// answer that shows it, and expires after the request.
  struct ClockBounds {
    std::chrono::nanoseconds low = std::chrono::nanoseconds::min();
    std::chrono::nanoseconds high = std::chrono::nanoseconds::max();
  };
  enum class End : std::uint8_t { unknown, released, broken };
  struct Lock {
    std::shared_ptr<const LockRow> row;
    BootTime read_at;
    std::chrono::milliseconds most_left = {};  ///< of the lease, when it was read
    bool is_renewed = false;                   ///< since it was first seen
    End end = End::unknown;
    bool overdue_taken = false;
  };
  struct KnownTask {
    std::shared_ptr<const TaskRow> row;
    BootTime read_at;
  };
  struct KnownQueue {
    std::shared_ptr<const QueueRow> row;
    BootTime read_at;
  };
  /// A page of a round, or a reading of one lock or task.
  enum class Source : std::uint8_t { page, single };
  using TasksByStatus = std::array<std::size_t, 5>;
  using TaskKey = std::pair<std::string, std::string>;
  using LockMap = std::map<std::string, Lock, std::less<>>;
  using TaskMap = std::map<TaskKey, KnownTask>;

  [[nodiscard]] WallTime engine_time(const Moment& now) const noexcept;
  /// Returns the row as it is shown, and updates `most_left`.
  [[nodiscard]] LockRow with_lease(LockRow row, const Exchange& exchange,
                                   std::chrono::milliseconds& most_left, bool is_renewed) const;
  void learn_clock(const LockRow& row, const Exchange& exchange) noexcept;
  /// Whether this time of the engine's clock is not before `begin`. What is found beside rows beyond the
  /// limit may have been there before.
  [[nodiscard]] bool is_since(WallTime time, BootTime begin, const Moment& now) const noexcept;
  void put_lock(LockRow row, const Exchange& exchange, Source source);
  LockMap::iterator drop_lock(LockMap::iterator lock, const Moment& now);
  void put_task(const TaskRow& row, const Exchange& exchange, Source source);
  TaskMap::iterator drop_task(TaskMap::iterator task, const Moment& now);
  void assign_workers();
  void add_event(Event event, const Moment& now);

  std::string engine_;
  Limits limits_;
  LockMap locks_;
  TaskMap tasks_;
  std::map<std::string, KnownQueue, std::less<>> queues_;
  std::size_t queues_beyond_ = 0;
  std::size_t locks_beyond_ = 0, locks_beyond_so_far_ = 0;
  TasksByStatus tasks_beyond_{}, tasks_beyond_so_far_{};
  std::size_t unreadable_ = 0, unreadable_so_far_ = 0;

  bool whole_ = false;  ///< tasks come last
  bool tasks_refused_ = false, tasks_refused_so_far_ = false, queues_refused_ = false;
  bool tasks_known_ = false;  ///< the last round has read them
  bool heard_ = false;
  BootTime unwatched_at_ = {};  ///< when there was last no viewer
  BootTime round_began_ = {};
  BootTime current_since_ = {};
  BootTime tasks_since_ = {};
  BootTime queues_since_ = {};
  std::chrono::milliseconds round_length_ = {};
  ClockBounds last_bounds_, bounds_;

  Reachability reachability_ = Reachability::unknown;
  ErrorCode error_code_ = ErrorCode::ServiceUnavailable;
  std::string error_;
  BootTime down_since_ = {};

  std::uint64_t snapshots_ = 0;
  std::uint64_t sequence_ = 0;
  std::deque<Event> events_;
  std::shared_ptr<const std::vector<Event>> shared_events_ = std::make_shared<const std::vector<Event>>();
};

}  // namespace holdfast::view
