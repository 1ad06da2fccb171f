#pragma once

#include <chrono>
#include <cstdint>
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

struct Capabilities {
  std::string_view backend;
  bool supports_fencing = true;
  /// Operations do their I/O on the thread that starts them (a file): not for a thread that must go on. An
  /// engine that says false must never keep its caller waiting: the thread that notices losses begins
  /// renewals.
  bool blocks = false;
};

/// What a change must outlive before it is answered.
enum class Durability : std::uint8_t {
  process,  ///< the death of any process: enough for a guard, whose lock dies with its machine anyway
  machine,  ///< a power cut as well: for a lock that outlives the process that took it
};

/// How long the fence counter of a key is needed, for an engine that has one for each key. A task's own lock
/// is needed no longer than the task.
struct CounterLifetime {
  /// By the engine's wall clock. Empty: for ever, whatever earlier grants asked for.
  std::optional<WallTime> until = std::nullopt;
};

struct Granted {
  Fence fence;
  WallTime expires_at = {};
  /// Whose counter the fence comes from, read in the same atomic step. A store that lost its data is another
  /// authority from the next grant on, for processes that stay connected too.
  std::string authority = {};
  /// How many replicas acknowledged the grant; empty where the engine has none, or was not asked to wait for
  /// them.
  std::optional<std::uint32_t> replicas = std::nullopt;
  /// The request was sent more than once, and a copy of it may still arrive, after the id's release too.
  bool may_be_repeated = false;
};

/// Somebody else holds the lock: a result, not an error.
struct Refused {
  /// How long until it expires unless it is renewed or released, by the engine's clock; empty if unknown.
  std::optional<std::chrono::milliseconds> free_in = std::nullopt;
  /// Who holds it; empty where the engine does not record holders.
  std::optional<LockHolder> holder = std::nullopt;
};

using AcquireOutcome = std::variant<Granted, Refused>;

/// A lock somebody holds: its id, and its key where the caller knows it (that spares an engine the index).
struct LockRef {
  LockId id;
  std::optional<LockKey> key;

  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key ? std::string_view(key->str()) : std::string_view(), .lock_id = id.str()};
  }
};

/// Why release or extend did nothing. Callers see only "not ok"; telemetry tells them apart.
enum class Absence : std::uint8_t { not_found, expired, other_owner };

struct Released {};
using ReleaseOutcome = std::variant<Released, Absence>;

struct Extended {
  WallTime expires_at = {};
  /// The request was sent more than once, and a copy of it may still be carried out, later than others.
  bool may_be_repeated = false;
};
using ExtendOutcome = std::variant<Extended, Absence>;

inline constexpr std::size_t max_list_limit = 1000;

struct LockPage {
  std::vector<LockRecord> locks;
  std::string cursor;  ///< empty on the last page
};

/// One waiter's interest in one key, from its creation on: a release after that is not missed, even if it
/// comes before `wait`. A wake-up is a hint to try again, never a grant. Used by one thread at a time.
class HOLDFAST_EXPORT Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;

  /// Completes `woken` with true when the key may have become free; with false when it is time to look again,
  /// at the deadline or after a stop request. An engine that knows several waiters of this key in the process
  /// may let one of them look again for all; then the others sleep on until they are woken or their deadline
  /// comes. If a thread waits for `woken`, it sleeps here; otherwise no thread is blocked, and a thread of
  /// the engine completes it, and it fails at once if no such thread can be started: its caller then has to
  /// look again by the clock. The watch must live until then, and nothing else is asked of it meanwhile.
  virtual void wait(BootTime look_again_at, BootTime deadline, std::stop_token stop, Done<bool> woken) = 0;

  /// Hands a received wake-up to another waiter: for one that was woken and gives up instead of trying.
  virtual void pass_on() noexcept = 0;
};

/// Take `key` for `id`. The caller makes the id, so that asking again after a lost answer is the same
/// request and not a competitor's.
///
/// Grants the lock if nobody holds it. Repeated with the same id and key while that lock lives, it
/// answers as the first time (an extend in between shows in the expiry) and changes nothing, so a retry
/// after a lost answer cannot lock itself out. An id that holds another key: InvalidArgument.
/// After a refusal take a new id for the next attempt: where an earlier copy of the request got lost, the
/// engine sees to it that the old id is never granted anything. An id that was released or broken before:
/// Internal, with Effect::id_is_spent.
struct AcquireRequest {
  using Outcome = AcquireOutcome;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::acquire; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str(), .lock_id = id.str()}; }

  LockId id;
  LockKey key;
  Ttl ttl;
  Durability durability = Durability::machine;
  BootTime deadline = never;
  /// With a grant: the counter may end some time after this, and after the lease. Each grant that says so
  /// sets it anew. Empty: the counter is left as it is, which is for ever if no grant ever said otherwise.
  std::optional<CounterLifetime> counter_lifetime = std::nullopt;
};

/// Frees the lock if this id holds it, and wakes a waiter. With a key, the id is looked for there only.
/// Sent more than once (`asked_before`, or repeated by the engine after a lost answer) and finding nothing,
/// it is Released if the request's proof holds, the authority and the fence counter are still the grant's,
/// and no operator broke the lock; an Absence if one of these is known to fail; else NetworkTimeout:
/// unknown. An engine whose failures change nothing (SQLite) answers what it finds.
struct ReleaseRequest {
  using Outcome = ReleaseOutcome;
  [[nodiscard]] Activity activity() const noexcept {
    return broken_because.empty() ? Activity::release : Activity::break_lock;
  }

  [[nodiscard]] RequestSubject subject() const noexcept {
    auto about = lock.subject();
    about.broken_because = broken_because;
    return about;
  }

  LockRef lock;
  Durability durability = Durability::machine;
  BootTime deadline = never;
  /// Empty for a caller that knows the lock id alone.
  std::optional<HolderProof> proof = {};
  /// An earlier release of this id was never answered, so it may have been carried out.
  bool asked_before = false;
  /// A copy of the id's acquire may still arrive (Granted::may_be_repeated): it must not be granted any more.
  bool acquire_may_be_repeated = false;
  /// Not empty: an operator breaks the lock, for this reason. The holder's own release must then not count as
  /// done, even if its answer is lost and it is repeated.
  std::string broken_because = {};
};

/// Sets the expiry to now + ttl, replacing what was left (longer or shorter), if this id holds the lock.
/// Never revives one that expired. The fence stays.
struct ExtendRequest {
  using Outcome = ExtendOutcome;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::extend; }
  [[nodiscard]] RequestSubject subject() const noexcept { return lock.subject(); }

  LockRef lock;
  Ttl ttl;
  Durability durability = Durability::machine;
  BootTime deadline = never;
  /// This thread calls IdleIo::run_until_readable of the engine next: what it begins before that is sent
  /// together, and no other thread is woken for it. For renewals, which a timer begins.
  bool by_idle_io = false;
};

/// Whether somebody holds the key. Read-only.
struct IsLockedRequest {
  using Outcome = bool;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::is_locked; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str()}; }

  LockKey key;
  BootTime deadline = never;
};

/// The live lock of a key or of an id, in one atomic step; nothing if there is none.
struct LookupRequest {
  using Outcome = std::optional<LockRecord>;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::lookup; }

  [[nodiscard]] RequestSubject subject() const noexcept {
    if (const auto* id = std::get_if<LockId>(&what)) return {.lock_id = id->str()};
    return {.key = std::get<LockKey>(what).str()};
  }

  std::variant<LockKey, LockId> what;
  BootTime deadline = never;
};

/// The live locks, a page at a time, for operators. A lock held throughout is listed exactly once;
/// one taken or freed meanwhile may or may not be.
struct ListRequest {
  using Outcome = LockPage;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::list_locks; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {}; }

  /// Empty for the first page, else the cursor of the page before. Opaque; a foreign one is InvalidArgument.
  std::string cursor;
  /// Clamped to 1..max_list_limit.
  std::size_t limit = 100;
  BootTime deadline = never;
};

/// Watch a key for releases. Answered with null by an engine that cannot wake waiters: then they poll. An
/// engine that must ask a server for it answers when the server did, at the latest at the deadline or a stop
/// request.
struct WatchRequest {
  using Outcome = std::unique_ptr<Watch>;
  /// An engine whose operations block its caller answers this one without I/O.
  static constexpr bool never_blocks = true;

  LockKey key;
  BootTime deadline = never;
};

/// Does an engine's I/O on a thread that would sleep otherwise until a descriptor is readable, as a timer's
/// does.
class HOLDFAST_EXPORT IdleIo {
 public:
  IdleIo() = default;
  IdleIo(const IdleIo&) = delete;
  IdleIo& operator=(const IdleIo&) = delete;
  virtual ~IdleIo() = default;

  /// Returns when the descriptor is readable, or as soon as there is nothing left to do here. Blocks in
  /// nothing but a poll that the descriptor ends, and completes nothing but what was begun with `by_idle_io`
  /// and what threads wait for: no user code runs here. The engine expects the thread back soon. -1: it does
  /// not come back.
  virtual void run_until_readable(int descriptor) noexcept = 0;
};

/// The lock contract. Every engine keeps it; one suite of tests checks them all.
///
/// Operations make one attempt each; retries, waiting and renewal are policies above. Each completes its
/// `Done` exactly once with a Result: inline before returning (memory, SQLite) or later from another
/// thread. Failures are one of the transient codes, AuthFailed, InvalidArgument, Aborted or Internal;
/// contention and absence are outcomes. A transient failure of a change means *unknown*: it may have taken
/// effect, unless the error says otherwise (Effect::none). An operation ends with NetworkTimeout at its
/// request's `deadline` and with Aborted, if it has not begun, when its stop token is triggered.
///
/// Time. `now` is the engine's clock; the caller's clock is never stored. At its expiry a lock is gone:
/// others acquire it, and release, extend and lookup find nothing. It is never granted to a second holder
/// before that. A wall-clock jump neither frees nor prolongs it.
///
/// Fences. Each grant's fence is higher than all fences granted for that key before, across restarts and
/// power cuts. Above Fence::max_issued acquire fails with Internal and nothing is held; above
/// Fence::warn_above each grant logs a warning that names the key's hash only. A counter that has ended
/// (CounterLifetime) goes on above all it ever granted, with the next request that names a lifetime.
///
/// Threads. All functions may be called from any thread. No callback runs under a mutex or inside a
/// transaction. After fork the child's operations fail with ServiceUnavailable.
class HOLDFAST_EXPORT LockBackend
    : public Contract<AcquireRequest, ReleaseRequest, ExtendRequest, IsLockedRequest, LookupRequest,
                      ListRequest, WatchRequest> {
 public:
  using Operations = Contract;

  [[nodiscard]] virtual Capabilities capabilities() const noexcept = 0;

  /// A stable id of the store that counts the fences: fences of different authorities are never compared.
  [[nodiscard]] virtual std::string authority() const = 0;

  /// Null if a thread that has nothing else to do cannot help. A decorator that passes on requests with
  /// `by_idle_io` passes on this, too.
  [[nodiscard]] virtual std::shared_ptr<IdleIo> idle_io() { return nullptr; }

  /// Blocks until the operation of this completion is done; an engine may let the thread help with I/O.
  virtual void wait(Completion& completion);
};

}  // namespace holdfast
