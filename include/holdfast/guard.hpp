#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/lock_types.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/storage_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

namespace holdfast {

class HeldLock;
class LockStore;

/// Why a guard was lost.
enum class LossReason : std::uint8_t {
  unproven,  ///< the lease was not renewed in time: the engine did not answer, the process was suspended, or
             ///< the guard does not renew it
  gone,      ///< the engine reports that this lock id no longer holds the lock, for example because it was
             ///< broken
  max_hold,  ///< LockOptions::max_hold has passed
};
/// Returns the name of the enumerator, such as "unproven". The text is static.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(LossReason reason) noexcept;

struct LeaseView;

/// One grant of a lock as data: what a process needs to extend, release or adopt the lock.
///
/// Returned by Guard::detach and Locks::acquire, accepted by Locks::adopt. Nothing renews it. Contains the
/// secret lock id: see LockId. A default-constructed Lease has the nil lock id and stands for no lock.
struct Lease {
  /// The normalised key.
  std::string key = {};
  /// The secret id of the grant.
  LockId id = {};
  /// How long the lease lasts from the grant, or from the last extend.
  std::chrono::milliseconds ttl = {};
  /// The fencing token of the grant.
  Fence fence = {};
  /// When the lease expires, by the engine's clock.
  WallTime expires_at = {};
  /// The id of the store that counted the fence. If it is empty, as in a Lease that you construct, the store
  /// that adopts the lock is assumed.
  std::string authority = {};
  /// See Granted::replicas.
  std::optional<std::uint32_t> replicas = std::nullopt;
  /// True if a copy of the acquire request was lost and may still arrive. The release after an adoption then
  /// prevents that copy from being granted late.
  bool acquire_may_be_repeated = false;

  /// Returns a view of this lease, as an argument. Valid while this object lives.
  operator LeaseView() const noexcept;
};

/// A Lease as an argument: a Lease, or `{.key = "upload", .id = id, .ttl = 30s, .fence = fence}`.
///
/// A view: its texts must be valid until the call returns.
struct LeaseView {
  std::string_view key;                  ///< see Lease::key; it need not be normalised
  LockId id;                             ///< see Lease::id
  std::chrono::milliseconds ttl;         ///< see Lease::ttl
  Fence fence;                           ///< see Lease::fence
  std::string_view authority = {};       ///< see Lease::authority
  bool acquire_may_be_repeated = false;  ///< see Lease::acquire_may_be_repeated
  /// Returns a Lease that owns its texts. It has no expiry: the engine returns that when the lease is
  /// adopted.
  explicit operator Lease() const {
    return {.key = std::string(key),
            .id = id,
            .ttl = ttl,
            .fence = fence,
            .authority = std::string(authority),
            .acquire_may_be_repeated = acquire_may_be_repeated};
  }
};
template <>
struct detail::OwnedArgument<LeaseView> {
  using type = Lease;
};

inline Lease::operator LeaseView() const noexcept {
  return {.key = key,
          .id = id,
          .ttl = ttl,
          .fence = fence,
          .authority = authority,
          .acquire_may_be_repeated = acquire_may_be_repeated};
}

/// A held lock. It renews the lease while this object lives, and releases the lock at most once, in the
/// destructor at the latest.
///
/// @code
/// auto guard = hf.locks().lock("orders:42");
/// guard.on_lost([&](holdfast::LossReason) { alarm(); });
/// while (more_to_do() && !guard.lost().stop_requested()) {
///   write_next(guard.fence());  // the receiver rejects a fence lower than the highest it has seen
/// }
/// const bool all_the_time = guard.still_held();  // false: writes may have overlapped with another holder
/// guard.release();
/// @endcode
///
/// *Ownership.* Movable, not copyable. A moved-from guard is empty, as is a guard after release() or
/// detach(): it holds no lock.
///
/// *Loss.* A guard is held while its lease can be proven to be valid: for the ttl from before the answered
/// request was sent, minus 1 ms and a thousandth of the ttl for clock drift, on this machine's
/// CLOCK_BOOTTIME. LockOptions::notice before that time ends without a renewal, the guard is lost: lost() is
/// triggered and then the on_lost callback runs. remaining() is the time that the holder then has to stop;
/// until it has passed, no other holder can acquire the lock, and still_held() is true. Once lost, a guard
/// stays lost: no further request extends it, and a late answer does not count. If the engine reports that
/// the lock is gone, for example because it was broken, the guard is lost immediately, and nothing remains.
/// If the machine or the process is suspended, the signals come when it resumes. Holdfast cannot make the
/// holder stop; a holder that stops writing when it is notified, and passes fence() along with each write,
/// cannot damage data of a receiver that rejects lower fences.
///
/// *Risk.* at_risk() is an earlier warning that may pass: the last extend failed, or has had no answer for a
/// sixth of the ttl. Renewals continue.
///
/// *Threads.* Const functions may be called from any thread, at the same time. The others must not be called
/// at the same time as any other function of the same guard. After fork, the child's copy does nothing: its
/// destructor releases nothing.
///
/// *Errors.* On an empty guard, functions throw InvalidArgument unless their comment says otherwise; in a
/// forked child, ServiceUnavailable. A *system error* is ServiceUnavailable, NetworkTimeout, RateLimited,
/// AuthFailed, Internal, or Aborted after a stop request.
///
/// *Cancellation.* After a stop request, release, extend and detach fail soon: with Aborted if the request
/// was not sent, otherwise with the engine's error, NetworkTimeout on Redis.
class HOLDFAST_EXPORT Guard {
 public:
  /// Constructs an empty guard.
  Guard() noexcept = default;
  /// Moves the lock into this guard and leaves the other one empty.
  Guard(Guard&&) noexcept = default;
  /// Moves the lock of the other guard into this one. Releases the lock that this guard held before, as the
  /// destructor does.
  Guard& operator=(Guard&&) noexcept;
  /// Releases the lock, if it was neither released nor detached. Never throws; a system error goes to
  /// on_release_error.
  ///
  /// Blocks until a running loss callback has returned and the engine has answered, but no longer than
  /// LockOptions::dispose_timeout if that is set, and for the answer no longer than release() does. On a
  /// thread of the library it does not block; the release then continues in the background.
  ~Guard() {
    if (held_) dispose();
  }

  /// Returns whether the guard is not empty. A lost guard is not empty: see still_held().
  [[nodiscard]] explicit operator bool() const noexcept;

  /// Returns the normalised key. Valid while this guard holds the lock.
  [[nodiscard]] const std::string& key() const;
  /// Returns the secret id of the grant: see LockId. Valid while this guard holds the lock.
  [[nodiscard]] const LockId& id() const;
  /// Returns the fencing token of the grant. Pass it along with each write that the lock protects.
  [[nodiscard]] Fence fence() const;
  /// Returns the fence together with the key and the authority that it belongs to, as tasks and registers
  /// need it.
  [[nodiscard]] FencingToken token() const;
  /// Returns the id of the store that counted the fence. Valid while this guard holds the lock.
  [[nodiscard]] const std::string& authority() const;
  /// Returns how many replicas acknowledged the grant; empty if none were asked for, and for an adopted lock.
  [[nodiscard]] std::optional<std::uint32_t> replicas() const;
  /// Returns when the lease expires according to the last answer, on the engine's wall clock. For display;
  /// use remaining() for decisions.
  [[nodiscard]] WallTime expires_at() const;

  /// Returns how long the lease can still be proven; zero for an empty guard. For a lost guard, this is how
  /// long the holder has to stop. No I/O.
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept;
  /// Returns whether the lease can be proven at this moment; false for an empty guard. A lost guard is held
  /// until its proof ends. No I/O.
  [[nodiscard]] bool still_held() const noexcept;
  /// Returns a token that is triggered when the guard is lost, LockOptions::notice before its proof ends;
  /// never by a release.
  ///
  /// Stop callbacks registered on it run on a thread that may block. The token of an empty guard is never
  /// triggered.
  [[nodiscard]] std::stop_token lost() const noexcept;
  /// Returns why the guard was lost; empty if it was not lost, and for an empty guard.
  [[nodiscard]] std::optional<LossReason> loss_reason() const noexcept;
  /// Returns why the last renewal or extend failed. Empty if it succeeded, if there was none, and for an
  /// empty guard. After a loss as LossReason::unproven this is why the lease could not be renewed, unless the
  /// process was suspended.
  [[nodiscard]] std::optional<Error> renewal_error() const;
  /// Returns whether the last renewal or extend failed, or has had no answer for a sixth of the ttl. False
  /// again after the next success, and for an empty guard. Not a loss. No I/O.
  [[nodiscard]] bool at_risk() const noexcept;

  /// Sets the callback that runs once when the guard is lost, after lost() was triggered. Replaces an earlier
  /// callback that has not run.
  ///
  /// It runs on a thread of the library, where it may block; immediately if the guard is lost already. It
  /// does not run after a release: release() and the destructor wait for a running callback, so the callback
  /// must not wait for the thread that owns the guard. An exception that it throws is logged.
  void on_lost(std::function<void(LossReason)> callback);
  /// Sets the callback that runs with each change of at_risk(): with true when it begins, with false when the
  /// lease was renewed after all. Replaces an earlier callback, which may still be running.
  ///
  /// It runs on a thread of the library, where it may block; immediately if the guard is at risk already. The
  /// calls come one at a time and in order; a change that was undone meanwhile causes none. There are none
  /// after a loss, but one may still be running then. Release and exceptions as with on_lost().
  void on_at_risk(std::function<void(bool at_risk)> callback);
  /// Sets the callback that receives the system error of a release in the destructor or in the background.
  ///
  /// Without a callback, a debug message without key and id goes to the log. The callback runs in the
  /// destructor, or, for a release in the background, on a thread of the library, where it may block. An
  /// exception that it throws is logged. release() throws its errors and does not call it.
  void on_release_error(std::function<void(const Error&)> callback);

  /// Releases the lock and leaves the guard empty. Returns true if the store still had the lock for this
  /// guard; false if it had expired, was broken or acquired by another holder, and for an empty guard.
  ///
  /// The store may still have a lock that this guard had to give up as lost: to learn of a loss, look at
  /// still_held() or loss_reason() before.
  ///
  /// Waits for a running loss callback. Resends an unanswered request once; waits for an answer at most
  /// until the lease has expired, or for a second if that is later. Throws system errors; NetworkTimeout
  /// means that the result is unknown. The guard is empty then too, and the lock is free at the latest when
  /// its lease expires. After a stop request the release continues in the background.
  bool release(std::stop_token stop = {});
  /// Renews the lease for `ttl` from now on; later renewals use this ttl too. Returns false if the lock is
  /// gone: then the guard is lost. Returns false without a request if the guard was lost before.
  ///
  /// Waits for a renewal that is under way, and for the answer at most until the guard is lost.
  /// Throws InvalidArgument for a ttl outside of 1 ms to 366 days, and system errors. After a system error,
  /// the shorter of the old and the new lease counts; if the error is Aborted or its Error::effect is
  /// Effect::none, nothing has changed. A request that was never answered may be carried out late: from then
  /// on, no more than its ttl can be proven at a time, which remaining() takes into account.
  bool extend(std::chrono::milliseconds ttl, std::stop_token stop = {});
  /// Stops holding the lock without releasing it, and returns it as data: for another process to adopt, see
  /// Locks::adopt. Returns an empty optional if the guard is lost, also because the lock is gone; it then
  /// still has to be released.
  ///
  /// Renews the lease once for its ttl and durably (Durability::machine), then leaves the guard empty. From
  /// then on the lease is not renewed. The ttl may be shorter after an unanswered extend: see extend(). The
  /// notice does not travel: the adopter has its own (LockOptions::notice).
  /// Throws system errors; the guard then still holds the lock, under the rules of extend().
  [[nodiscard]] std::optional<Lease> detach(std::stop_token stop = {});

  // Without blocking: `done` is called exactly once, before the function returns or on a thread of the
  // library, with the value or the error of the function above. The guard may be moved or destroyed
  // meanwhile.

  /// Releases the lock as release() does, without blocking. The guard is empty immediately. A stop request
  /// cancels the wait, not the release, which continues in the background.
  void release(std::stop_token stop, Done<bool> done);
  /// Renews the lease as extend() does, without blocking. Errors, those of an empty guard included, go to
  /// `done`.
  void extend(std::chrono::milliseconds ttl, std::stop_token stop, Done<bool> done);
  /// Detaches the lock as detach() does, without blocking. The guard is empty when `done` is called with a
  /// lease. Errors, those of an empty guard included, go to `done`.
  void detach(std::stop_token stop, Done<std::optional<Lease>> done);

  /// Calls `done` with the reason when the guard is lost, immediately if it is lost already. Calls it with
  /// Aborted if the guard is released or detached first, or after a stop request.
  void wait_lost(std::stop_token stop, Done<LossReason> done);

  /// Releases the lock as the destructor does, but in the background: returns immediately and leaves the
  /// guard empty. Does not wait for a running loss callback. Does nothing on an empty guard.
  void release_in_background() noexcept;

 private:
  friend class LockStore;
  explicit Guard(std::shared_ptr<HeldLock> held) noexcept : held_(std::move(held)) {}
  /// The destructor of a guard that is not empty.
  void dispose() noexcept;
  [[nodiscard]] std::optional<Error> unusable() const;
  HeldLock& held() const;
  std::shared_ptr<HeldLock> held_;
};

}  // namespace holdfast
