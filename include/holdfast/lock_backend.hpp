#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/change_feed.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/contract.hpp>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/lock_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace holdfast {

/// What an engine can do.
struct Capabilities {
  /// The engine's name: "memory", "sqlite", "redis". Valid as long as the backend.
  std::string_view backend;
  /// Whether every grant carries a fence.
  bool supports_fencing = true;
  /// Whether operations do their I/O on the thread that starts them (a file): not for a thread that must go
  /// on. An engine that returns false must never make its caller wait: the thread that detects lost leases
  /// begins renewals.
  bool blocks = false;
  /// Whether each key has a fence counter with an authority of its own. Then grants of different keys have
  /// different authorities (Granted::authority), and LockBackend::authority() only identifies the store.
  bool authority_per_key = false;
};

/// What a change must survive before it is answered.
enum class Durability : std::uint8_t {
  process,  ///< the death of any process: enough for a guard, whose lock dies with its machine anyway
  machine,  ///< a power cut as well: for a lock that outlives the process that acquired it
};

/// How long the fence counter of a key is needed, for an engine with one counter per key. The lock of a task
/// is needed no longer than the task.
struct CounterLifetime {
  /// By the engine's wall clock. Empty: forever, whatever earlier grants asked for.
  std::optional<WallTime> until = std::nullopt;
};

/// The lock was granted.
struct Granted {
  /// The fence of this grant.
  Fence fence;
  /// When the lease expires, by the engine's clock.
  WallTime expires_at = {};
  /// The id of the store that counted the fence, read in the same atomic step. A store that lost its data has
  /// another authority from the next grant on, for processes that stay connected too.
  SharedText authority = {};
  /// How many replicas acknowledged the grant; empty if the engine has none, or was not asked to wait for
  /// them.
  std::optional<std::uint32_t> replicas = std::nullopt;
  /// The request was sent more than once, and a copy of it may still arrive, even after the release of this
  /// id.
  bool may_be_repeated = false;
};

/// Another holder has the lock: a result, not an error.
struct Refused {
  /// How long until the lease expires unless it is renewed or released, by the engine's clock; empty if
  /// unknown.
  std::optional<std::chrono::milliseconds> free_in = std::nullopt;
  /// The label of the holder; null if the lock has none.
  std::shared_ptr<const LockHolder> holder = nullptr;
};

/// The result of an AcquireRequest.
using AcquireOutcome = std::variant<Granted, Refused>;

/// A held lock: its id, and its key if the caller knows it (which saves an engine the lookup in its index).
/// Without the key, an engine may find only locks whose last acquire or extend had Durability::machine: the
/// holder of another one knows its key.
struct LockRef {
  /// The id that the lock was acquired with.
  LockId id;
  /// The lock's key; empty if unknown.
  std::optional<LockKey> key;

  /// Returns the key and the id for observers. Points into this object.
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key ? std::string_view(key->str()) : std::string_view(), .lock_id = id.str()};
  }
};

/// Why release or extend did nothing. Callers of Locks see only "not ok"; telemetry distinguishes the cases.
enum class Absence : std::uint8_t {
  not_found,   ///< this id holds no lock
  expired,     ///< this id held the lock, but its lease has expired
  other_owner  ///< another id holds the lock of this key
};

/// The lock was released.
struct Released {};
/// The result of a ReleaseRequest.
using ReleaseOutcome = std::variant<Released, Absence>;

/// The lease was extended.
struct Extended {
  /// The new expiry, by the engine's clock: its now plus the ttl of the request, from which callers and
  /// engines learn that clock. A lease that was left as it is would be another outcome.
  WallTime expires_at = {};
  /// The request was sent more than once, and a copy of it may still be carried out, later than other
  /// requests.
  bool may_be_repeated = false;
};
/// The result of an ExtendRequest.
using ExtendOutcome = std::variant<Extended, Absence>;

/// The greatest number of locks on one page.
inline constexpr std::size_t max_list_limit = 1000;

/// One page of the live locks.
struct LockPage {
  /// In no particular order.
  std::vector<LockRecord> locks;
  /// The cursor of the next page; empty on the last one.
  std::string cursor;
  /// Keys that ListRequest::known knows: they are stored, but were not read. In a layout that keeps the key
  /// of a released lock, such a lock may be free.
  std::vector<std::string> seen = {};
};

/// What the caller of a listing knows already: it lists again and again, and reading all locks each time is
/// most of what a listing costs a server.
class HOLDFAST_EXPORT KnownLocks {
 public:
  KnownLocks() = default;
  /// Copies nothing: this class has no state of its own.
  KnownLocks(const KnownLocks&) = default;
  /// Copies nothing.
  KnownLocks& operator=(const KnownLocks&) = default;
  virtual ~KnownLocks() = default;
  /// Returns true if the lock of this key need not be read. Called by any thread while the listing runs; must
  /// neither block nor throw.
  [[nodiscard]] virtual bool knows(std::string_view key) const noexcept = 0;
};

/// One waiter's subscription to the releases of a key, from its creation on: a later release is not missed,
/// even if it comes before wait(). A wake-up is a hint to retry, never a grant. Used by one thread at a time.
class HOLDFAST_EXPORT Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;

  /// Completes `woken` with true when the key may have become free; with false at `look_again_at`, at the
  /// deadline or after a stop request, when it is time to check again. An engine that knows several waiters
  /// of this key in the process may let one of them check for all; then the others sleep until they are woken
  /// or their deadline comes.
  ///
  /// If a thread waits for `woken`, it sleeps in this call. Otherwise no thread is blocked: a thread of the
  /// engine completes it. If no such thread can be started, it fails at once, and the caller has to poll. The
  /// watch must live until `woken` is completed, and no other function may be called before.
  virtual void wait(BootTime look_again_at, BootTime deadline, std::stop_token stop, Done<bool> woken) = 0;

  /// Hands a received wake-up to another waiter: for a waiter that was woken and gives up instead of trying.
  virtual void pass_on() noexcept = 0;
};

/// Acquires `key` for `id`. The caller generates the id, so that a resent request after a lost answer is
/// recognised as the same request and not as a competitor's.
///
/// Grants the lock if it is free. Repeated with the same id and key while that lock lives, it gives the first
/// answer again (an extend in between shows in the expiry) and changes nothing; so a retry after a lost
/// answer cannot lock itself out. An id that holds another key: InvalidArgument.
///
/// After a refusal, use a new id for the next attempt: if an earlier copy of the request got lost, the engine
/// ensures that the old id is never granted anything. An id that was released or broken before: Internal,
/// with Effect::id_is_spent. Any error with that effect: use a new id too.
struct AcquireRequest {
  /// The result.
  using Outcome = AcquireOutcome;
  /// Returns Activity::acquire.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::acquire; }
  /// Returns key and id for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .lock_id = id.str(), .holder = holder};
  }

  /// A fresh id; see LockId::generate().
  LockId id;
  /// The key to lock.
  LockKey key;
  /// How long the lease lasts, from the grant on.
  Ttl ttl;
  /// What the grant must survive before it is answered.
  Durability durability = Durability::machine;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
  /// With a grant: the fence counter may expire some time after this, and after the lease. Each grant with a
  /// value sets it anew. Empty: the counter's lifetime is not changed; it is forever if no grant has set one.
  std::optional<CounterLifetime> counter_lifetime = std::nullopt;
  /// How many replicas must acknowledge the grant; empty: as many as the engine was opened with. If fewer do
  /// in time, the engine releases the lock and fails with ServiceUnavailable and Effect::id_is_spent. An
  /// engine without replicas: InvalidArgument for more than 0.
  std::optional<std::uint32_t> min_replicas = std::nullopt;
  /// The label to store with the lock; null: none. A repeated request does not change the label.
  std::shared_ptr<const LockHolder> holder = nullptr;
};

/// Releases the lock if this id holds it, and wakes a waiter. With a key, only that key is checked for the
/// id.
///
/// A release may be sent more than once: `asked_before`, or resent by the engine after a lost answer. If it
/// then finds nothing, the outcome is Released if the request's proof holds, the authority and the fence
/// counter are still the grant's, and no operator broke the lock; an Absence if one of these is known to
/// fail; otherwise NetworkTimeout: unknown. An engine whose failures change nothing (SQLite) answers what it
/// finds.
struct ReleaseRequest {
  /// The result.
  using Outcome = ReleaseOutcome;
  /// Returns Activity::release, or Activity::break_lock if an operator breaks the lock.
  [[nodiscard]] Activity activity() const noexcept {
    return broken_because.empty() ? Activity::release : Activity::break_lock;
  }

  /// Returns key, id and reason for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept {
    auto about = lock.subject();
    about.broken_because = broken_because.str();
    about.holder = holder;
    return about;
  }

  /// The lock to release.
  LockRef lock;
  /// What the release must survive before it is answered.
  Durability durability = Durability::machine;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
  /// What the holder knows of its grant; empty for a caller that knows the lock id alone.
  std::optional<HolderProof> proof = {};
  /// An earlier release of this id was never answered, so it may have been carried out.
  bool asked_before = false;
  /// A copy of the id's acquire may still arrive (Granted::may_be_repeated): it must not be granted any more.
  bool acquire_may_be_repeated = false;
  /// Not empty: an operator breaks the lock, for this reason. The holder's own release must then not count as
  /// done, even if its answer is lost and it is repeated.
  SharedText broken_because = {};
  /// The label of the lock's holder, for observers; null if it is not known.
  std::shared_ptr<const LockHolder> holder = nullptr;
};

/// Sets the expiry to now + ttl, replacing what was left (longer or shorter), if this id holds the lock.
/// Never revives an expired lock. The fence stays, and so does the holder's label unless the request has
/// another.
struct ExtendRequest {
  /// The result.
  using Outcome = ExtendOutcome;
  /// Returns Activity::extend.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::extend; }
  /// Returns key and id for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return lock.subject(); }

  /// The lock to extend.
  LockRef lock;
  /// How long the lease lasts, from now on.
  Ttl ttl;
  /// What the new expiry must survive before it is answered.
  Durability durability = Durability::machine;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
  /// Promises that this thread calls IdleIo::run_until_readable of the engine next. Requests that it begins
  /// before that are sent together, and no other thread is woken for them. For renewals, which a timer
  /// begins.
  bool by_idle_io = false;
  /// How many replicas must acknowledge the new expiry; empty: as many as the engine was opened with. If
  /// fewer do in time: ServiceUnavailable, although the engine may have the new expiry. An engine without
  /// replicas: InvalidArgument for more than 0.
  std::optional<std::uint32_t> min_replicas = std::nullopt;
  /// Replaces the label of the lock's holder, for a lock that is adopted; a null pointer removes it. Empty:
  /// the label stays.
  std::optional<std::shared_ptr<const LockHolder>> new_holder = std::nullopt;
};

/// Checks whether the key is held. Read-only, unless the Redis option `cleanup_in_is_locked` is set: then
/// expired lock data may be deleted, which does not change the answer.
struct IsLockedRequest {
  /// True if a live lock has this key.
  using Outcome = bool;
  /// Returns Activity::is_locked.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::is_locked; }
  /// Returns the key for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str()}; }

  /// The key to check.
  LockKey key;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Reads the live lock of a key or of an id, in one atomic step.
struct LookupRequest {
  /// The lock; empty if there is none.
  using Outcome = std::optional<LockRecord>;
  /// Returns Activity::lookup.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::lookup; }

  /// Returns the key or the id for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept {
    if (const auto* id = std::get_if<LockId>(&what)) return {.lock_id = id->str()};
    return {.key = std::get<LockKey>(what).str()};
  }

  /// The key or the id to look up.
  std::variant<LockKey, LockId> what;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// In which order a listing returns locks.
enum class LockOrder : std::uint8_t {
  /// A lock that is held throughout is listed exactly once. On Redis each page costs a scan of all keys of
  /// the database.
  by_key,
  /// As the engine finds them: a lock that is held throughout is listed at least once, and a page may be
  /// empty although others follow. On Redis a page scans about `limit` keys of the database, so its server
  /// time is bounded, and a whole listing is one scan. A cursor is valid only with the object that returned
  /// it.
  as_found,
};

/// Lists the live locks, one page at a time, for operators. A lock that is acquired or released meanwhile may
/// or may not be listed; for those that are held throughout see LockOrder.
struct ListRequest {
  /// The page.
  using Outcome = LockPage;
  /// Returns Activity::list_locks.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::list_locks; }
  /// Returns an empty subject.
  [[nodiscard]] RequestSubject subject() const noexcept { return {}; }

  /// Empty for the first page, else LockPage::cursor of the page before. Opaque; a foreign cursor is
  /// InvalidArgument.
  std::string cursor;
  /// The greatest number of locks on the page; clamped to 1..max_list_limit. On Redis a page `as_found` may
  /// be somewhat longer.
  std::size_t limit = 100;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
  /// The same for all pages of a listing.
  LockOrder order = LockOrder::by_key;
  /// With LockOrder::as_found: locks that need not be read. An engine that finds keys before it reads locks
  /// names them in LockPage::seen; others read them. Must be valid until the operation is done; null: none.
  const KnownLocks* known = nullptr;
  /// If not empty, only the locks of these keys are read, at most max_list_limit (more are InvalidArgument),
  /// and listed on one page; cursor, limit, order and `known` have no effect. A name that a feed reports
  /// (Change::key) may be given in place of its key.
  std::vector<LockKey> only = {};
};

/// How many waiters each key has, in the order of the request; empty where the engine cannot know it.
using WaiterCounts = std::vector<std::optional<std::uint32_t>>;

/// Counts the waiters of keys, held or not, for operators. A number is information that is out of date when
/// it arrives: nothing may be decided by it.
///
/// Redis counts the processes that are subscribed to the releases of the key, SQLite the processes that
/// registered with its file of wake-ups, memory the waiters of this process. A process that does not listen
/// is not counted: one without the right to subscribe, or a SyncGuard process, which polls. On Redis a
/// process is still counted for about a second after its last waiter of the key has left, so a lock that a
/// waiter has just acquired may count its own holder.
struct WaitersRequest {
  /// One number per key.
  using Outcome = WaiterCounts;
  /// Returns Activity::count_waiters.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::count_waiters; }
  /// Returns an empty subject.
  [[nodiscard]] RequestSubject subject() const noexcept { return {}; }

  /// The keys, at most max_list_limit: more are InvalidArgument.
  std::vector<LockKey> keys;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Watches a key for releases. The outcome is null for an engine that cannot wake waiters: then they poll. An
/// engine that must ask a server for it answers when the server did, at the latest at the deadline or a stop
/// request.
struct WatchRequest {
  /// The watch, owned by the caller; may be null.
  using Outcome = std::unique_ptr<Watch>;
  /// An engine whose operations block its caller answers this one without I/O.
  static constexpr bool never_blocks = true;

  /// The key to watch.
  LockKey key;
  /// When to give up.
  BootTime deadline = never;
};

/// Which changes of locks a feed reports.
enum class LockChanges : std::uint8_t {
  /// Released and broken locks.
  releases,
  /// Acquired locks (Change::Kind::acquired or `written`). An acquire does nothing for it: the server itself
  /// reports to the feed which keys were written, as long as the feed exists.
  grants,
};

/// Follows changes of all locks of the store: a feed, which the caller owns. The outcome is null for an
/// engine, or a user of a server, that cannot follow: then a viewer polls.
struct FollowLocks {
  /// The feed; may be null.
  using Outcome = std::unique_ptr<ChangeFeed>;
  /// An engine whose operations block its caller answers this one without I/O.
  static constexpr bool never_blocks = true;

  /// When to give up waiting for the server's confirmation. The feed then reports Change::Kind::anything when
  /// it is confirmed.
  BootTime deadline = never;
  /// Which changes to report.
  LockChanges what = LockChanges::releases;
};

/// Does an engine's I/O on a thread that would otherwise sleep until a descriptor is readable, such as a
/// timer thread.
class HOLDFAST_EXPORT IdleIo {
 public:
  IdleIo() = default;
  IdleIo(const IdleIo&) = delete;
  IdleIo& operator=(const IdleIo&) = delete;
  virtual ~IdleIo() = default;

  /// Does I/O until the descriptor is readable, or until there is nothing left to do here. Blocks only in a
  /// poll that the descriptor ends. Completes only operations that were begun with `by_idle_io` and those
  /// that threads wait for: no user code runs here. The engine expects the thread back soon. -1: the thread
  /// does not come back.
  virtual void run_until_readable(int descriptor) noexcept = 0;
};

/// The lock contract: the interface that every lock engine implements. One suite of tests checks all engines
/// against it. Programs use Locks, which adds retries, waiting and renewal; an engine makes one attempt per
/// operation. <holdfast/done.hpp> shows how an engine completes an operation.
///
/// *Completion.* Each operation completes its Done exactly once with a Result: inline before `submit` returns
/// (memory, SQLite) or later from another thread (Redis).
///
/// *Errors.* A failure is one of the transient codes (ServiceUnavailable, NetworkTimeout, RateLimited),
/// AuthFailed, InvalidArgument, Aborted or Internal. Contention and absence are outcomes, not errors. A
/// transient failure of a change means *unknown*: it may have taken effect, unless the error's effect is
/// Effect::none.
///
/// *Deadline and cancellation.* An operation ends with NetworkTimeout at its request's `deadline`. When its
/// stop token is triggered, it ends with Aborted if it has not begun: then nothing was changed. If its
/// request was already sent to a server, it ends with NetworkTimeout, because the outcome is unknown.
///
/// *Time.* `now` is the engine's clock; the caller's clock is never stored. At its expiry a lock is gone:
/// others acquire it, and release, extend and lookup find nothing. It is never granted to a second holder
/// before that. A wall-clock jump neither frees nor prolongs it; on Redis that holds for jumps of this
/// machine's clock, not of the server's (docs/reference/promises.md).
///
/// *Fences.* Each grant's fence is higher than all fences granted for that key before, across restarts and
/// power cuts, as far as the store keeps its data (docs/reference/promises.md). Above Fence::max_issued,
/// acquire fails with Internal and nothing is held; above Fence::warn_above, each grant logs a warning that
/// contains the key's hash only. A counter that has expired (CounterLifetime) continues above all fences it
/// ever granted, with the next request that has a lifetime.
///
/// *Threads.* All functions may be called from any thread. No callback runs under a mutex or inside a
/// transaction. After fork, the child's operations fail with ServiceUnavailable.
///
/// @code
/// auto backend = holdfast::make_memory_lock_backend();
/// const auto key = holdfast::LockKey::parse("orders:42").value_or_throw();
/// backend->submit(holdfast::IsLockedRequest{.key = key}, {},
///                 [](holdfast::Result<bool> locked) { /* on any thread; must not block */ });
/// @endcode
class HOLDFAST_EXPORT LockBackend
    : public Contract<AcquireRequest, ReleaseRequest, ExtendRequest, IsLockedRequest, LookupRequest,
                      ListRequest, WaitersRequest, WatchRequest, FollowLocks> {
 public:
  /// The list of request types, for templates over all of them (Intercepting).
  using Operations = Contract;

  /// Returns what the engine can do. Always the same for one object; no I/O.
  [[nodiscard]] virtual Capabilities capabilities() const noexcept = 0;

  /// Returns a stable id of the store that counts the fences. Fences of different authorities are never
  /// compared.
  [[nodiscard]] virtual std::string authority() const = 0;

  /// Returns the engine's IdleIo; null if an idle thread cannot help it. A decorator that passes on requests
  /// with `by_idle_io` must pass on this too.
  [[nodiscard]] virtual std::shared_ptr<IdleIo> idle_io() { return nullptr; }

  /// Blocks until the operation of this completion is finished; an engine may let the thread help with I/O.
  /// The default only sleeps. Required after `submit` with Done::into, if the completion is not finished yet.
  virtual void wait(Completion& completion);
};

}  // namespace holdfast
