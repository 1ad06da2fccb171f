#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/export.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/log.hpp>
#include <holdfast/owned.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
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

/// The lock key of an operation. A text is checked and normalised at once; an invalid one makes the operation
/// fail with InvalidArgument when it is run.
class Key {
 public:
  /// Checks a text, or copies a LockKey. Does not fail.
  template <class Text>
    requires std::is_convertible_v<const Text&, LockKeyView>
  Key(const Text& text) : Key(LockKeyView(text)) {}
  /// Checks or copies what the view refers to.
  Key(LockKeyView view) : key_(view.parse()) {}

  /// Returns the key; throws InvalidArgument if it is invalid.
  [[nodiscard]] LockKey value_or_throw() && { return std::move(key_).value_or_throw(); }

 private:
  Result<LockKey> key_;
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

/// The operation of Locks::follow and Locks::follow_grants.
struct HOLDFAST_EXPORT FollowHeldLocks {
  using Answer = std::unique_ptr<ChangeFeed>;  ///< null if the engine cannot follow changes
  LockChanges what = LockChanges::releases;    ///< which changes to report
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

namespace holdfast {

class LockStore;
class Observer;

/// Which page of the held locks Locks::list_raw returns.
struct ListLocks {
  /// Empty for the first page, otherwise the cursor of the page before. Opaque; a cursor of another list is
  /// InvalidArgument. The text must be valid until the call returns.
  std::string_view cursor = {};
  /// How many locks a page may have; clamped to 1..max_list_limit.
  std::size_t limit = 100;
  /// The call fails with NetworkTimeout if it is not answered by then. Not set: the engine's own time limit.
  BootTime deadline = never;
  /// The same for all pages of a listing. `as_found` is far cheaper on Redis, for views that list again and
  /// again.
  LockOrder order = LockOrder::by_key;
  /// With LockOrder::as_found: locks that need not be read; see ListRequest::known.
  const KnownLocks* known = nullptr;
  /// If not empty, only the locks of these keys are read; see ListRequest::only. The keys must be valid until
  /// the call returns.
  std::span<const LockKey> only = {};

  /// Returns the same as a request to a LockBackend, which owns its texts.
  [[nodiscard]] ListRequest request() const {
    return {.cursor = std::string(cursor),
            .limit = limit,
            .deadline = deadline,
            .order = order,
            .known = known,
            .only = {only.begin(), only.end()}};
  }
};

/// The locks of one engine: waits for them, retries, renews their leases and releases them.
///
/// @code
/// const holdfast::Locks& locks = hf.locks();
///
/// auto guard = locks.lock("orders:42", {.ttl = 30s, .wait = 5s});  // waits; throws if it times out
///
/// if (auto guard = locks.try_lock("nightly")) {                    // one attempt
///   run_nightly_job(guard->fence(), guard->lost());
/// }
/// @endcode
///
/// *Ownership.* Cheap to copy: copies share everything. A guard keeps the engine alive, so it may outlive all
/// copies. The destructor of the last copy blocks until the background work of destroyed guards is done, in
/// particular their releases; on a thread of the library it does not wait.
///
/// *Threads.* All functions may be called from any thread. They block and throw holdfast::Error, except
/// `start`, which does not block.
///
/// *Keys and ids.* A key is checked as LockKey::parse does, a lock id as LockId::parse; if one is invalid,
/// the call throws InvalidArgument before any I/O. The Redis engine also rejects keys that would collide with
/// its own names. Text arguments must be valid until the call returns.
///
/// *Errors.* Contention, and a lock that does not exist, are results. Besides the codes that a function
/// names, each function that accesses the engine can throw:
/// - ServiceUnavailable, NetworkTimeout, RateLimited: transient. Whether a change took effect is unknown,
///   unless Error::effect is Effect::none. ServiceUnavailable also in a forked child;
/// - AuthFailed: the engine rejects the credentials, or permissions are missing;
/// - InvalidArgument: an argument is invalid;
/// - Internal: the engine or the stored data broke a promise, for example an exhausted fence counter;
/// - Aborted: see below.
///
/// *Cancellation.* A stop request makes a blocked call return soon. If its request was not sent yet, the call
/// throws Aborted and nothing has changed. If it was sent to Redis and not answered, the call throws
/// NetworkTimeout: whether the change took effect is unknown. lock(), try_lock() and acquire() throw Aborted
/// in both cases, and release in the background a lock that may have been granted.
///
/// *Cost.* Without contention each function is one round trip to Redis or one SQLite transaction; functions
/// that need two mention it. A call without a deadline fails after RedisOptions::command_timeout, or after
/// waiting SqliteOptions::busy_timeout for other writers of the file.
class HOLDFAST_EXPORT Locks {
 public:
  /// Uses a backend that you constructed; open() does this for you.
  ///
  /// `backend` must not be null. If `log` is null, nothing is logged. `observer` may be null; it is notified
  /// of waits, holds and renewals. To observe the operations of the backend too, wrap it: see with_observer.
  /// `holder` is the label of grants whose LockOptions name no other; null: they have none.
  explicit Locks(std::shared_ptr<LockBackend> backend, std::shared_ptr<Log> log = {},
                 std::shared_ptr<Observer> observer = {},
                 std::shared_ptr<const LockHolder> holder = LockHolder::of_this_process());

  /// Waits for the lock and returns a guard that holds it.
  ///
  /// Retries while the lock is held and after transient errors, until `options.wait` or `options.retries` is
  /// used up; never waits longer than `options.wait`. A single attempt (`options.wait` is zero) takes at most
  /// the engine's own time limit. A waiter is woken by a release where the engine supports that, and polls
  /// otherwise.
  ///
  /// @throws Error AcquisitionTimeout if the lock was held until the limit; the last transient error if the
  /// last attempt failed with one; InvalidArgument for invalid options; Internal also if the threads that
  /// renew leases cannot be started; Aborted after a stop request.
  [[nodiscard]] Guard lock(LockKeyView key, const LockOptions& options = {},
                           std::stop_token stop = {}) const {
    return run(operation::Lock{key, options}, std::move(stop));
  }

  /// Makes one attempt to acquire the lock. Returns an empty optional if the lock is held.
  ///
  /// `options.wait` and `options.retries` are not used, and transient errors are not retried. Throws as
  /// lock(), but never AcquisitionTimeout.
  [[nodiscard]] std::optional<Guard> try_lock(LockKeyView key, const LockOptions& options = {},
                                              std::stop_token stop = {}) const {
    return run(operation::TryLock{key, options}, std::move(stop));
  }

  /// Calls `function(guard)` while holding the lock, releases the lock and returns the function's result.
  ///
  /// If the function throws, the lock is released and the exception is passed on. A loss is not reported:
  /// check `guard.still_held()` at the end of the function if it matters. Throws as lock() and
  /// Guard::release.
  ///
  /// @code
  /// const int total = locks.with_lock("orders:42", {.wait = 5s}, [&](holdfast::Guard& guard) {
  ///   return add_order(guard.fence());
  /// });
  /// @endcode
  template <class F>
    requires std::is_invocable_v<F, Guard&>
  auto with_lock(LockKeyView key, const LockOptions& options, F&& function, std::stop_token stop = {}) const
      -> std::invoke_result_t<F, Guard&> {
    Guard guard = lock(key, options, std::move(stop));
    if constexpr (std::is_void_v<std::invoke_result_t<F, Guard&>>) {
      std::forward<F>(function)(guard);
      guard.release();
    } else {
      auto result = std::forward<F>(function)(guard);
      guard.release();
      return result;
    }
  }

  /// Returns a guard for a lock that was detached or acquired without a guard, here or in another process.
  /// Returns an empty optional if that id no longer holds the lock.
  ///
  /// Extends the lease by `lease.ttl` first, which proves that the lock is held, and replaces the label of
  /// the lock's holder. The fence and the authority are those of `lease`; they are not compared with the
  /// store. Of `options`, `auto_renew`, `max_hold`, `notice`, `dispose_timeout`, `min_replicas` and `holder`
  /// are used, but all are validated. If the call fails, the lock keeps its lease and can be adopted again
  /// until that expires.
  [[nodiscard]] std::optional<Guard> adopt(const LeaseView& lease, const LockOptions& options = {},
                                           std::stop_token stop = {}) const {
    return run(operation::Adopt{detail::owned(lease), options}, std::move(stop));
  }

  /// Waits for the lock as lock() does, and returns it as data, without a guard.
  ///
  /// The lease is not renewed: the lock is free when it is released by its id or when the lease expires. The
  /// grant is durable (Durability::machine): on SQLite it survives a power cut. Throws as lock().
  [[nodiscard]] Lease acquire(LockKeyView key, const LockOptions& options = {},
                              std::stop_token stop = {}) const {
    return run(operation::Acquire{key, options}, std::move(stop));
  }
  /// Releases a lock by its id, for locks without a guard. Returns false if that id holds no lock (any more).
  ///
  /// NetworkTimeout means that the result is unknown: the lock may have been released.
  bool release(std::string_view lock_id, std::stop_token stop = {}) const {
    return run(operation::Release{std::string(lock_id)}, std::move(stop));
  }
  /// Releases a lock by its id and returns immediately: for a lock whose caller has disconnected, or never
  /// received the id.
  ///
  /// The request is resent while it is not answered (on SQLite once), for at most a minute. The last object
  /// that keeps the engine alive waits at most a second for it. An invalid id is ignored. In a forked child
  /// the call does nothing.
  void release_in_background(std::string_view lock_id) const noexcept;
  /// Sets the lease of a lock to `ttl` from now on, longer or shorter than before, and returns the new expiry
  /// by the engine's clock. Returns an empty optional if that id holds no lock; never revives an expired
  /// lock.
  ///
  /// For locks without a guard; for others use Guard::extend. InvalidArgument for a ttl outside of 1 ms to
  /// 366 days.
  std::optional<WallTime> extend(std::string_view lock_id, std::chrono::milliseconds ttl,
                                 std::stop_token stop = {}) const {
    return run(operation::Extend{std::string(lock_id), ttl}, std::move(stop));
  }

  /// Returns whether the key is locked at this moment. Read-only, unless RedisOptions::cleanup_in_is_locked
  /// is set.
  [[nodiscard]] bool is_locked(LockKeyView key, std::stop_token stop = {}) const {
    return run(operation::IsLocked{key}, std::move(stop));
  }
  /// Returns the lock of this key, with hashes in place of key and lock id; empty if the key is not locked.
  [[nodiscard]] std::optional<LockInfo> get_by_key(LockKeyView key, std::stop_token stop = {}) const {
    return run(operation::GetByKey{key}, std::move(stop));
  }
  /// Returns the lock that this id holds, with hashes in place of key and lock id; empty if it holds none.
  [[nodiscard]] std::optional<LockInfo> get_by_id(std::string_view lock_id, std::stop_token stop = {}) const {
    return run(operation::GetById{std::string(lock_id)}, std::move(stop));
  }
  /// Returns the lock of this key with the raw key and lock id; empty if the key is not locked. A process
  /// that knows the id can release the lock: do not log it.
  [[nodiscard]] std::optional<LockRecord> get_by_key_raw(LockKeyView key, std::stop_token stop = {}) const {
    return run(operation::GetByKeyRaw{key}, std::move(stop));
  }
  /// Returns the lock that this id holds with the raw key and lock id; empty if it holds none.
  [[nodiscard]] std::optional<LockRecord> get_by_id_raw(std::string_view lock_id,
                                                        std::stop_token stop = {}) const {
    return run(operation::GetByIdRaw{std::string(lock_id)}, std::move(stop));
  }
  /// Returns whether this id holds this key. For diagnosis only, never as a guard: the answer may be outdated
  /// when it arrives.
  [[nodiscard]] bool owns(LockKeyView key, std::string_view lock_id, std::stop_token stop = {}) const {
    return run(operation::Owns{key, std::string(lock_id)}, std::move(stop));
  }
  /// Returns one page of the held locks, with their raw keys and ids, for operators.
  ///
  /// A lock that is held during the whole listing is listed exactly once (LockOrder::as_found: at least
  /// once); a lock that is acquired or released meanwhile may be missing. InvalidArgument for a cursor of
  /// another list.
  [[nodiscard]] LockPage list_raw(const ListLocks& what = {}, std::stop_token stop = {}) const {
    return run(operation::ListLocksRaw{what.request()}, std::move(stop));
  }
  /// Returns for each key how many processes wait for its lock, for operators; an empty optional where the
  /// engine cannot know it. See WaitersRequest for which waiters are seen.
  ///
  /// InvalidArgument for more than max_list_limit keys. On a Redis cluster one round trip to each master.
  [[nodiscard]] WaiterCounts count_waiters(std::span<const LockKey> keys, std::stop_token stop = {}) const {
    return run(operation::CountWaiters{{keys.begin(), keys.end()}}, std::move(stop));
  }
  /// Returns a feed of released and broken locks, for views; null if the engine cannot follow changes.
  [[nodiscard]] std::unique_ptr<ChangeFeed> follow(std::stop_token stop = {}) const {
    return run(operation::FollowHeldLocks{}, std::move(stop));
  }
  /// Returns a feed of acquired locks, for views; null if the engine cannot report them. Only Redis 6 and
  /// later does, to a user with the right to CLIENT TRACKING.
  ///
  /// An acquire does nothing for the feed. The server pays for each grant that it reports; if that exceeds
  /// about 1 % of its time, the feed pauses for half a minute and then reports Change::Kind::anything. In
  /// the native layout the server cannot tell grants from other writes, so renewals count too.
  [[nodiscard]] std::unique_ptr<ChangeFeed> follow_grants(std::stop_token stop = {}) const {
    return run(operation::FollowHeldLocks{LockChanges::grants}, std::move(stop));
  }

  /// Breaks the lock of this key, for operators: removes it although its holder did not release it. Returns
  /// the broken lock; empty if the key was not locked.
  ///
  /// From then on the former holder's release and extend find nothing, and the next grant has a higher fence.
  /// But the former holder is not notified before its next renewal, or before its lease would have expired.
  /// Until then only the fence protects the data from its writes.
  ///
  /// `reason` goes to telemetry and, as a warning with the key's hash, to the log. It must be one non-empty
  /// line without control characters, otherwise InvalidArgument. Two round trips; a lock that is granted
  /// between them is not broken.
  std::optional<LockInfo> break_lock(LockKeyView key, std::string_view reason,
                                     std::stop_token stop = {}) const {
    return run(operation::BreakLock{key, std::string(reason)}, std::move(stop));
  }
  /// Breaks the lock of this key only if it is held with the fence `held_with`: for an operator who inspected
  /// the lock first. A lock that was granted since is not broken; the result is then empty.
  std::optional<LockInfo> break_lock(LockKeyView key, std::string_view reason, Fence held_with,
                                     std::stop_token stop = {}) const {
    return run(operation::BreakLock{key, std::string(reason), held_with}, std::move(stop));
  }

  /// Runs an operation on this thread and returns its result. `Operation` is one of namespace
  /// holdfast::operation above; the functions are shorter forms of this.
  template <class Operation>
  typename Operation::Answer run(Operation operation, std::stop_token stop = {}) const;
  /// Starts an operation without blocking, for <holdfast/asio.hpp> and other event loops.
  ///
  /// `done` is called exactly once, with the value that `run` would return or the error that it would throw,
  /// either before this function returns or on a thread of the library. It must neither block nor throw: see
  /// Done. The operation owns its arguments and keeps the engine alive. An engine that blocks
  /// (Capabilities::blocks) does so on a thread of a small pool.
  template <class Operation>
  void start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const;

  /// Returns the properties of the engine: its name, and whether it has fences and blocks.
  [[nodiscard]] Capabilities capabilities() const noexcept;
  /// Returns the id of the store that counts the fences. No I/O: a store that lost its data has another
  /// authority, which is known here after the next grant.
  [[nodiscard]] std::string authority() const;
  /// Returns the label of grants whose LockOptions name no other; null if they have none.
  [[nodiscard]] std::shared_ptr<const LockHolder> holder() const noexcept;
  /// Returns the engine itself. Valid while a copy of this object or one of its guards lives.
  [[nodiscard]] LockBackend& backend() const noexcept;

 private:
  friend class LockStore;
  class End;
  std::shared_ptr<End> end_;  ///< shared by all copies; its destructor waits for background work
  std::shared_ptr<LockStore> store_;
};

}  // namespace holdfast
