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

namespace holdfast {

class HeldLock;
class LockStore;

/// Why a guard no longer counts as held.
enum class LossReason : std::uint8_t {
  unproven,  ///< the lease could not be renewed in time: the engine did not answer
  gone,      ///< the engine says that this id does not hold the lock any more
  max_hold,  ///< `LockOptions::max_hold` has passed
};
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(LossReason reason) noexcept;

struct LeaseView;

/// One grant of a lock as data: what a process needs to extend, release or adopt the lock. Nothing renews it.
/// A default-constructed one is empty: it has the nil lock id and stands for no lock.
struct Lease {
  /// Normalised.
  std::string key = {};
  LockId id = {};
  std::chrono::milliseconds ttl = {};
  Fence fence = {};
  /// By the engine's clock.
  WallTime expires_at = {};
  /// The id of the store that counted the fence. Empty, as in a Lease made by hand: that of the store which
  /// adopts it.
  std::string authority = {};
  /// As Granted::replicas.
  std::optional<std::uint32_t> replicas = std::nullopt;
  /// A copy of its acquire request got lost and may still arrive. The release after an adoption then
  /// prevents a late grant.
  bool acquire_may_be_repeated = false;

  operator LeaseView() const noexcept;
};

/// A Lease as an argument: `{.key = "upload", .id = id, .ttl = 30s, .fence = fence}`, or a Lease. The text
/// needs to be valid only until the call returns.
struct LeaseView {
  std::string_view key;
  LockId id;
  std::chrono::milliseconds ttl;
  Fence fence;
  std::string_view authority = {};
  bool acquire_may_be_repeated = false;
  /// Without the expiry, which the engine returns when the lease is adopted.
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

/// A held lock that is renewed while this object lives and released at most once, at its end. Movable; the
/// moved-from guard is empty: it holds nothing, and release on it does nothing.
///
/// *Loss*. A guard is held while its lease can be proven: from before the answered request was sent, plus
/// the ttl, minus a little for clock drift, on this machine's CLOCK_BOOTTIME. Shortly before that ends
/// without a renewal, `lost()` is triggered, then the on_lost callback runs. Once lost, a guard stays lost.
/// A holder that stops writing when told, and passes `fence()` along with each write, cannot do harm.
///
/// Threads: const functions may be called from any thread. After fork the child's copy is inert.
class HOLDFAST_EXPORT Guard {
 public:
  /// An empty guard.
  Guard() noexcept;
  Guard(Guard&&) noexcept;
  /// Releases what it held before, like the destructor.
  Guard& operator=(Guard&&) noexcept;
  /// Releases the lock if nobody has. Never throws; a system error goes to on_release_error. Waits for a loss
  /// callback that runs and for the engine's answer, at most for the dispose_timeout if one was set, and for
  /// the answer no longer than release() does; on a thread of the library it does not wait.
  ~Guard();

  /// False for an empty or moved-from guard, and after release() or detach(). Says nothing about loss.
  [[nodiscard]] explicit operator bool() const noexcept;

  /// Requires a non-empty guard, as do all functions below but release().
  [[nodiscard]] const std::string& key() const;
  [[nodiscard]] const LockId& id() const;
  [[nodiscard]] Fence fence() const;
  /// The fence, with the key and the authority that it belongs to: what a task or a register checks.
  [[nodiscard]] FencingToken token() const;
  /// The id of the store that counts the fence.
  [[nodiscard]] const std::string& authority() const;
  /// When the lease ends as of the last answer, on the engine's wall clock.
  [[nodiscard]] WallTime expires_at() const;

  /// How long the lease can still be proven; zero once lost.
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept;
  /// Whether the lease can be proven at this moment. No I/O.
  [[nodiscard]] bool still_held() const noexcept;
  /// Triggered when the guard is lost, no later than the moment the proof ends; never by a release.
  /// Stop callbacks registered on it run on a thread that may block.
  [[nodiscard]] std::stop_token lost() const noexcept;
  /// Empty unless lost.
  [[nodiscard]] std::optional<LossReason> loss_reason() const noexcept;
  /// Why the last renewal or extend failed; empty if it succeeded, or there was none. Of a guard that is lost
  /// as `unproven`: why it could not be renewed, unless its process was suspended.
  [[nodiscard]] std::optional<Error> renewal_error() const;

  /// Runs once, after lost() was triggered, on a thread of its own; at once if the guard is lost already.
  /// Not called after the guard was released: release() and the destructor wait for one that runs. So it
  /// must not wait for whoever owns the guard. What it throws is logged.
  void on_lost(std::function<void(LossReason)> callback);
  /// Gets the system error of a release that nobody could be told of. Default: one line in the log.
  void on_release_error(std::function<void(const Error&)> callback);

  /// Frees the lock now. True if this id still held it. Throws Error on system errors; then the guard is
  /// empty all the same and the lock ends with its lease. Later calls return false. Waits for the engine's
  /// answer until the lease has expired at most, or for a second if that is later.
  bool release(std::stop_token stop = {});
  /// Renews now, for `ttl` from now on and for every renewal after. False if the lock is gone: then the
  /// guard is lost. Throws Error on system errors: then the lesser of the old and the new lease counts,
  /// unless the request was certainly not carried out (Effect::none): then nothing has changed. An extend or
  /// renewal that the engine never answered may reach it late: from then on no more than its ttl can be
  /// proven at a time, and `remaining()` says so.
  bool extend(std::chrono::milliseconds ttl, std::stop_token stop = {});
  /// Lets go without releasing: renews once for the ttl (see extend), durably, and leaves the guard empty.
  /// Nothing if the lock is gone: then the guard is lost. Throws Error on system errors: then the guard is as
  /// before.
  [[nodiscard]] std::optional<Lease> detach(std::stop_token stop = {});

  // The same without blocking: `done` is completed once, inline or on a thread of the library, with what the
  // function above returns or throws. The guard may end or move meanwhile.

  /// The guard is empty at once. A stop request ends the waiting, not the release: that goes on in the
  /// background.
  void release(std::stop_token stop, Done<bool> done);
  void extend(std::chrono::milliseconds ttl, std::stop_token stop, Done<bool> done);
  void detach(std::stop_token stop, Done<std::optional<Lease>> done);

  /// Completed with the reason when the guard is lost, at once if it is already; with Aborted when it ends
  /// before, or on a stop request.
  void wait_lost(std::stop_token stop, Done<LossReason> done);

  /// What the destructor does, but in the background: returns at once and leaves the guard empty. It does not
  /// wait for a loss callback that runs.
  void release_in_background() noexcept;

 private:
  friend class LockStore;
  explicit Guard(std::shared_ptr<HeldLock> held) noexcept;
  [[nodiscard]] std::optional<Error> unusable() const;
  HeldLock& held() const;
  std::shared_ptr<HeldLock> held_;
};

}  // namespace holdfast
