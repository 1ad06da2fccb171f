#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What a store holds, kept up to date for viewers. Values, pure machines and one reading thread; changes
/// nothing in the store.
namespace holdfast::view {

/// A held lock. Texts are as their writers chose them: escape them where they are shown.
struct LockRow {
  std::string key;            ///< the whole key, as LockRecord has it
  std::string holder;         ///< the label of the holder; empty if it has none
  Fence fence;                ///< of this grant
  WallTime acquired_at = {};  ///< by the engine's clock; a view bounds what no clock shows
  WallTime expires_at = {};   ///< the same, as of the last reading
  /// How long a lease of this grant lasts, as far as it can be known: a record has its end, not its length.
  std::chrono::milliseconds lease = {};
  /// How many processes wait for it; empty if the engine cannot tell. Waiters that poll are not counted.
  std::optional<std::uint32_t> waiters = std::nullopt;
  friend bool operator==(const LockRow&, const LockRow&) = default;
};

/// A task without its data: variables and result are not kept. Texts are escaped where they are shown.
struct TaskRow {
  std::string owner;
  std::string id;
  std::string method;  ///< clipped to max_text
  TaskStatus status = TaskStatus::working;
  std::string status_message = {};  ///< empty if there is none; clipped to max_text
  /// The variable `progress`, from 0 to 1, if it is a number that can be read so.
  std::optional<double> progress = std::nullopt;
  /// The variable `progress` if it is a text, or a number of unknown scale; clipped to max_text.
  std::string progress_text = {};
  WallTime created_at = {};                           ///< the epoch if unknown
  WallTime updated_at = {};                           ///< the epoch if unknown
  std::optional<WallTime> expires_at = std::nullopt;  ///< empty: never
  std::uint64_t version = 0;
  std::string incarnation = {};  ///< see Task::incarnation
  /// The highest fence that the task has seen; empty if no lock guards it.
  std::optional<Fence> fence = std::nullopt;
  /// The lock that guards the task, or would if it were claimed.
  std::string lock_key = {};
  /// Whether that lock is held.
  bool has_worker = false;
  /// The label of that lock's holder; empty if it has none, or the lock is not held.
  std::string worker = {};
  friend bool operator==(const TaskRow&, const TaskRow&) = default;

  /// The greatest length of a text that is clipped, in bytes.
  static constexpr std::size_t max_text = 256;
};

/// A queue, counted. Its name is as operators chose it: escape it where it is shown.
struct QueueRow {
  std::string name;
  std::size_t ready = 0,  ///< claimable now
      delayed = 0,        ///< claimable later
      working = 0,        ///< being worked on
      expired = 0,        ///< their worker has died, and no claim has found them yet
      exhausted = 0,      ///< without an attempt left, and not marked failed yet: the next claim does that
      parked = 0,         ///< held back by their limit key
      dead = 0,           ///< failed, and kept
      tasks = 0;          ///< all, finished ones included
  bool paused = false;
  std::optional<std::size_t> limit = std::nullopt;  ///< how many may be worked on at once; empty: any number
  std::optional<WallTime> oldest_ready = std::nullopt;  ///< since when the next one is ready
  std::optional<WallTime> next_due = std::nullopt;      ///< when the next delayed one becomes ready
  friend bool operator==(const QueueRow&, const QueueRow&) = default;
};

enum class EventKind : std::uint8_t {
  lock_granted,         ///< `old_fence`: another grant was seen before, and its end was not
  lock_released,        ///< by its holder, or broken where the engine reports no breaks
  lock_expired,         ///< its lease expired without a release
  lock_broken,          ///< by an operator
  lock_ended,           ///< while there was no viewer: released, broken or expired
  task_created,         ///< a task that was not there before
  task_changed,         ///< its status changed, and is not final
  task_ended,           ///< its status is final now
  task_removed,         ///< removed, or expired
  queue_paused,         ///< `owner` names the queue, as in the events of its tasks: "queue render"
  queue_resumed,        ///< the same
  queue_task_failed,    ///< for good: a task of a queue that is kept as failed. `text`: its message
  queue_workers_died,   ///< and no claim has found their tasks yet. `text`: of how many
  stale_write_refused,  ///< a write with an outdated fence
  store_unreachable,    ///< `text` says why
  store_reachable       ///< again
};

/// Returns a short name, such as "lock_granted". The view is valid forever.
[[nodiscard]] std::string_view to_string(EventKind kind) noexcept;

/// Something that happened, derived from what was read or heard. An event between two readings may be missed.
struct Event {
  std::uint64_t sequence = 0;  ///< rises by one with each event of this process
  EventKind kind = EventKind::lock_granted;
  WallTime at = {};     ///< when it was noticed, by the engine's clock as far as that is known
  std::string key;      ///< of a lock; else empty
  std::string owner;    ///< of a task; else empty
  std::string task_id;  ///< of a task; else empty
  std::string holder;   ///< the label of the lock's holder, or of the task's worker; may be empty
  std::optional<Fence> fence = std::nullopt;        ///< of the grant; of a refused write: the one it carried
  std::optional<Fence> old_fence = std::nullopt;    ///< of the grant before; of a refused write: the one seen
  std::optional<TaskStatus> status = std::nullopt;  ///< of a task, after the event
  std::string text = {};                            ///< more, for people; may be empty; clipped to max_text
  friend bool operator==(const Event&, const Event&) = default;
};

/// Whether the store answers.
enum class Reachability : std::uint8_t {
  unknown,  ///< not asked yet
  up,
  down
};

/// The store at a moment. Immutable once made, so viewers share it.
struct Snapshot {
  /// What was read before is old, unless a round of reading takes long.
  static constexpr std::chrono::seconds fresh_age{5};
  /// A row that did not change is the same object in the next snapshot: compare pointers first.
  using Locks = std::vector<std::shared_ptr<const LockRow>>;
  using Tasks = std::vector<std::shared_ptr<const TaskRow>>;
  using Queues = std::vector<std::shared_ptr<const QueueRow>>;

  std::uint64_t number = 0;   ///< rises with each snapshot of this process
  BootTime made_at = {};      ///< by this machine's clock
  WallTime engine_time = {};  ///< at `made_at`, by the engine's clock as far as that is known
  std::string engine = {};    ///< "redis", "sqlite", "memory"

  /// Whether everything was read at least once. Before that, missing rows mean nothing.
  bool whole = false;
  /// When the last complete round of reading began; the epoch before `whole`. The locks that are shown were
  /// stored then or later. Where changes are heard, a round reads the records of new locks only: what other
  /// software changes without a word, such as a holder, may be from an earlier round
  /// (ReadPace::Options::heard_interval).
  BootTime current_since = {};
  /// The same for the tasks, which are read less often where their changes are heard.
  BootTime tasks_since = {};
  /// The same for the queues, which are found after the tasks; the epoch until they were read.
  BootTime queues_since = {};
  /// How long the last whole round took.
  std::chrono::milliseconds round = {};
  /// Whether releases and changes are heard as they happen; otherwise the store is only read.
  bool heard = false;
  /// The user of the store may not read tasks, or queues: that none is shown says nothing about them.
  bool tasks_refused = false, queues_refused = false;

  Reachability reachability = Reachability::unknown;
  ErrorCode error_code = ErrorCode::ServiceUnavailable;  ///< why it is down; means nothing if it is not
  std::string error = {};                                ///< the same, one line; empty if it is not down
  BootTime down_since = {};                              ///< if it is down

  Locks locks = {};                                 ///< ordered by key
  Tasks tasks = {};                                 ///< ordered by owner and id
  Queues queues = {};                               ///< ordered by name
  std::size_t locks_not_shown = 0;                  ///< held, but beyond Limits
  std::size_t tasks_not_shown = 0;                  ///< there, but beyond Limits
  std::size_t queues_not_shown = 0;                 ///< there, but beyond Limits
  std::size_t tasks_unreadable = 0;                 ///< stored, but invalid
  std::array<std::size_t, 5> tasks_by_status = {};  ///< by TaskStatus; those not shown included

  /// The last events, ordered by sequence; never null in a snapshot of StoreView.
  std::shared_ptr<const std::vector<Event>> events = nullptr;

  /// Returns whether the store answers, as far as that is known at `now`: an old snapshot does not say.
  [[nodiscard]] bool is_up(BootTime now) const noexcept {
    // An answer makes a snapshot. On a large store, readings are as far apart as rounds are long.
    return reachability == Reachability::up && now - made_at <= fresh_age + 2 * round;
  }
  /// Returns how long ago the last complete round of reading began: see `current_since`. Means nothing before
  /// `whole`.
  [[nodiscard]] std::chrono::milliseconds age(BootTime now) const noexcept {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - current_since);
  }
  /// Returns how old the oldest of the tasks is, at `now`. Means nothing before `whole`.
  [[nodiscard]] std::chrono::milliseconds tasks_age(BootTime now) const noexcept {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - tasks_since);
  }
  /// Returns whether the queues were read at least once.
  [[nodiscard]] bool queues_known() const noexcept { return queues_since != BootTime(); }
  /// Returns how old the oldest of the queues is, at `now`. Means nothing before queues_known().
  [[nodiscard]] std::chrono::milliseconds queues_age(BootTime now) const noexcept {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - queues_since);
  }
  /// Returns the engine's clock at `now`, as far as it is known.
  [[nodiscard]] WallTime engine_time_at(BootTime now) const noexcept {
    return engine_time + std::chrono::duration_cast<std::chrono::milliseconds>(now - made_at);
  }
  /// Returns the number of held locks, those not shown included.
  [[nodiscard]] std::size_t lock_count() const noexcept { return locks.size() + locks_not_shown; }
  /// Returns the number of tasks, those not shown included.
  [[nodiscard]] std::size_t task_count() const noexcept { return tasks.size() + tasks_not_shown; }
  /// Returns the number of queues, those not shown included.
  [[nodiscard]] std::size_t queue_count() const noexcept { return queues.size() + queues_not_shown; }
};

/// How much a view keeps.
struct Limits {
  std::size_t locks = 20'000;
  std::size_t tasks = 20'000;
  std::size_t events = 256;
};

}  // namespace holdfast::view
