#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fence.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace holdfast {

/// A hint of a ChangeFeed: what may have changed in the store.
struct Change {
  /// What happened.
  enum class Kind : std::uint8_t {
    /// Any lock or task may have changed: the feed does not know which, or has missed changes.
    anything,
    /// The lock of `key` was released, or the task `key` was created, changed or removed.
    changed,
    /// An operator broke the lock of `key`.
    broken,
    /// The lock of `key` was acquired.
    acquired,
    /// The lock of `key` was acquired, extended or released, or it expired: the feed does not know which.
    written,
    /// The task `key` refused a late write: it carried the fence `refused`, and `highest` has been seen.
    stale_write,
  };
  /// What happened.
  Kind kind = Kind::anything;
  /// The lock key; or owner and id of the task, as `RecordKey::str()`. Empty if `kind` is `anything`.
  std::string key = {};
  /// The fence of the refused write; only for `stale_write`.
  std::optional<Fence> refused = std::nullopt;
  /// The highest fence that the task has seen; only for `stale_write`.
  std::optional<Fence> highest = std::nullopt;

  /// Compares all members.
  bool operator==(const Change&) const = default;
};

/// The changes of a store, made by any process, from the creation of the feed on: for views that would
/// otherwise read everything again and again. Hints, never facts: a change may be reported twice, late, or as
/// Change::Kind::anything.
///
/// Not reported by Locks::follow and Tasks::follow: acquires and extends of locks, expiry, and changes by
/// other software; Locks::follow_grants reports acquires. So a view also reads the store from time to time.
///
/// *Memory.* At most `most_pending` changes are kept; more become one Change::Kind::anything. Changes of the
/// same key are kept once.
///
/// *Lifetime.* Destroy it before the last Locks or Tasks of its store, and not during `wait`. Used by one
/// thread at a time.
///
/// @code
/// auto feed = hf.locks().follow();
/// while (feed) {  // null: this engine has none; read the store periodically
///   for (const auto& change : feed->next(BootClock::now() + 1s)) refresh(change);
/// }
/// @endcode
class HOLDFAST_EXPORT ChangeFeed {
 public:
  /// How many changes are kept between two waits.
  static constexpr std::size_t most_pending = 1024;

  ChangeFeed() = default;
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;
  virtual ~ChangeFeed() = default;

  /// Completes `changes` with the changes since the last wait, in their order: at once if there are any, else
  /// when the first arrives. Empty at the deadline, after a stop request, and sometimes earlier. It runs
  /// inline or on a thread of the library, so it must not block; see Done. No other function may be called
  /// before.
  virtual void wait(BootTime deadline, std::stop_token stop, Done<std::vector<Change>> changes) = 0;

  /// Waits on this thread and returns the changes; see wait().
  [[nodiscard]] std::vector<Change> next(BootTime deadline, std::stop_token stop = {}) {
    Slot<std::vector<Change>> slot;
    wait(deadline, std::move(stop), Done<std::vector<Change>>::into(slot));
    slot.completion.wait();
    return (*std::move(slot.result)).value_or_throw();
  }
};

}  // namespace holdfast
