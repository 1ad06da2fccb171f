#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/lock_options.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// The operations of Locks and Tasks as values that own their arguments.
///
/// `Locks::run` blocks until one is done, `Locks::start` calls a callback, and AsyncLocks completes any Asio
/// completion token. Each is a template over these types, so that an operation is described only once. The
/// member type `Answer` is the result. The functions of Locks describe what the operations do, how they fail
/// and what a stop request leaves behind.
///
/// @code
/// hf.locks().start(holdfast::operation::IsLocked{"orders:42"}, {}, [](holdfast::Result<bool> locked) {
///   if (locked && *locked) show_busy();
/// });
/// @endcode
namespace holdfast::operation {

/// A lock key in an operation: a text, or a copy of a LockKey. A text is checked and normalised when the
/// operation is run; an invalid one makes it fail with InvalidArgument.
class Key {
 public:
  /// Copies a text or a LockKey. Does not fail.
  template <class Text>
    requires std::is_convertible_v<const Text&, LockKeyView>
  Key(const Text& text) : Key(LockKeyView(text)) {}
  /// Copies what the view refers to.
  Key(LockKeyView view) : text_(view.text_), is_checked_(view.is_checked_) {}

  /// Returns the key; throws InvalidArgument if it is invalid.
  [[nodiscard]] LockKey value_or_throw() && {
    return is_checked_ ? LockKey(std::move(text_)) : LockKey::parse(text_).value_or_throw();
  }

 private:
  std::string text_;
  bool is_checked_;
};

/// The operation of Locks::lock.
struct HOLDFAST_EXPORT Lock {
  using Answer = Guard;  ///< a guard that is not empty
  Key key;               ///< what to lock
  /// How to wait and to hold: a copy of a LockOptions.
  detail::Owned<LockOptions> options = {};
  /// How long the key's fence counter is needed, see AcquireRequest::counter_lifetime. For features that are
  /// built on locks; leave it empty otherwise.
  std::optional<CounterLifetime> counter_lifetime = std::nullopt;
};

/// The operation of Locks::try_lock.
struct HOLDFAST_EXPORT TryLock {
  using Answer = std::optional<Guard>;  ///< empty if the lock is held
  Key key;                              ///< what to lock
  /// How to hold: a copy of a LockOptions; `wait` and `retries` are not used.
  detail::Owned<LockOptions> options = {};
};

/// The operation of Locks::adopt.
struct HOLDFAST_EXPORT Adopt {
  using Answer = std::optional<Guard>;  ///< empty if the lock is gone
  Lease lease;                          ///< the lock to adopt
  /// How to hold: a copy of a LockOptions; see Locks::adopt for those that are used.
  detail::Owned<LockOptions> options = {};
};

/// The operation of Locks::acquire.
struct HOLDFAST_EXPORT Acquire {
  using Answer = Lease;  ///< the grant; nothing renews it
  Key key;               ///< what to lock
  /// How to wait: a copy of a LockOptions.
  detail::Owned<LockOptions> options = {};
};

/// The operation of Locks::release.
struct HOLDFAST_EXPORT Release {
  using Answer = bool;  ///< false if the id holds no lock
  std::string lock_id;  ///< whose lock to release
};

/// The operation of Locks::extend.
struct HOLDFAST_EXPORT Extend {
  using Answer = std::optional<WallTime>;  ///< the new expiry; empty if the id holds no lock
  std::string lock_id;                     ///< whose lock to extend
  std::chrono::milliseconds ttl;           ///< the length of the new lease, from now on
};

/// The operation of Locks::is_locked.
struct HOLDFAST_EXPORT IsLocked {
  using Answer = bool;  ///< true if the key is locked
  Key key;              ///< which key to check
};

/// The operation of Locks::get_by_key.
struct HOLDFAST_EXPORT GetByKey {
  using Answer = std::optional<LockInfo>;  ///< empty if the key is not locked
  Key key;                                 ///< which key to look up
};

/// The operation of Locks::get_by_id.
struct HOLDFAST_EXPORT GetById {
  using Answer = std::optional<LockInfo>;  ///< empty if the id holds no lock
  std::string lock_id;                     ///< which id to look up
};

/// The operation of Locks::get_by_key_raw.
struct HOLDFAST_EXPORT GetByKeyRaw {
  using Answer = std::optional<LockRecord>;  ///< empty if the key is not locked; contains the secret lock id
  Key key;                                   ///< which key to look up
};

/// The operation of Locks::get_by_id_raw.
struct HOLDFAST_EXPORT GetByIdRaw {
  using Answer = std::optional<LockRecord>;  ///< empty if the id holds no lock
  std::string lock_id;                       ///< which id to look up
};

/// The operation of Locks::owns.
struct HOLDFAST_EXPORT Owns {
  using Answer = bool;  ///< true if the id holds the key
  Key key;              ///< which key to check
  std::string lock_id;  ///< the id that may hold it
};

/// The operation of Locks::list_raw.
struct HOLDFAST_EXPORT ListLocksRaw {
  using Answer = LockPage;  ///< one page, with the secret lock ids
  ListRequest request;      ///< which page; see ListLocks::request
};

/// The operation of Locks::count_waiters.
struct HOLDFAST_EXPORT CountWaiters {
  using Answer = WaiterCounts;  ///< one number per key, in their order
  std::vector<LockKey> keys;    ///< at most max_list_limit
};

/// The operation of Locks::follow.
struct HOLDFAST_EXPORT FollowHeldLocks {
  using Answer = std::unique_ptr<ChangeFeed>;  ///< null if the engine cannot follow changes
};

/// The operation of Locks::break_lock.
struct HOLDFAST_EXPORT BreakLock {
  using Answer = std::optional<LockInfo>;  ///< the broken lock; empty if none was broken
  Key key;                                 ///< whose lock to break
  std::string reason;                      ///< one non-empty line for telemetry and the log
  /// Breaks the lock only if it is held with this fence. Empty: breaks it in any case.
  std::optional<Fence> held_with = std::nullopt;
};

}  // namespace holdfast::operation
