#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/contract.hpp>
#include <holdfast/error.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace holdfast {

/// Why an activity did not do what was asked, other than by an error.
enum class Reason : std::uint8_t {
  none,         ///< it did what was asked, or failed with an error
  locked,       ///< another holder has the lock
  expired,      ///< this id held the lock, but its lease has expired
  not_found,    ///< no lock or record is there, or the lock is held by another id
  exists,       ///< a record to be created exists already
  quota,        ///< the owner has as many records as it may have
  conflict,     ///< the record has another version than expected
  stale_fence,  ///< the record has seen a higher fence
  wrong_lock,   ///< the record is bound to another lock
  // Of a lost guard (Activity::hold), as LossReason.
  unproven,  ///< as LossReason::unproven
  gone,      ///< as LossReason::gone
  max_hold,  ///< as LossReason::max_hold
};
/// The number of reasons: for arrays that are indexed by Reason.
inline constexpr std::size_t reason_count = static_cast<std::size_t>(Reason::max_hold) + 1;
/// Returns the reason's name: "locked", "not-found", "stale-fence"; empty for none. The view is valid
/// forever.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(Reason reason) noexcept;

/// An opaque value of the caller that is carried along from the start of a call to its end; see
/// Tracer::context. The last reference may be dropped on any thread.
using TraceContext = std::shared_ptr<const void>;

/// One activity that has ended: what was done and how it ended. The views are valid only during the call of
/// Observer::ended; copy what you keep.
struct Occurrence {
  /// What was done.
  Activity activity{};
  /// The engine's name.
  std::string_view backend;
  /// When the activity began.
  BootTime started;
  /// When it ended.
  BootTime ended;
  /// Why it did not do what was asked; none after a success or an error.
  Reason reason = Reason::none;
  /// The error that it failed with, if any.
  std::optional<ErrorCode> error = std::nullopt;
  /// The key of the lock, or `owner:task` of the record; empty if unknown. Raw: show its key_hash() instead.
  std::string_view key = {};
  /// The lock id; empty if unknown. Raw as well, and a capability besides: its reader can release the lock.
  std::string_view lock_id = {};
  /// The fence that was granted, found or carried by the request, if any.
  std::optional<Fence> fence = std::nullopt;
  /// Of break_lock: the operator's reason.
  std::string_view broken_because = {};
  /// The label of the lock's holder; empty if it is not known or has none. Of a refused acquire or wait: of
  /// the holder that has the lock. Of break: of the holder that lost it. Chosen by the holder: use
  /// printable() where it is shown.
  std::string_view holder = {};
  /// Of wait: how many acquire requests were sent to the engine.
  std::uint32_t attempts = 0;
  /// What Observer::context returned where the activity began; null if it was not called there.
  TraceContext context = {};

  /// Returns true if the activity did what was asked. An `is_locked` on a free lock and a lookup that finds
  /// nothing are not ok (Reason::not_found).
  [[nodiscard]] bool ok() const noexcept { return reason == Reason::none && !error; }
};

/// Interface that is notified of everything the library does: Metrics, Telemetry, or your own class. Pass it
/// in Instruments, or to with_observer() and Locks.
///
/// *Threads.* It is called in the middle of the work: from any thread, from several at once, among them the
/// threads that read the server's answers and renew leases, and possibly under a mutex of the library. So it
/// must not block, and must not call the library. Longer work belongs in a queue; Telemetry has one.
///
/// @code
/// class CountLosses final : public holdfast::Observer {
///  public:
///   void ended(const holdfast::Occurrence& occurrence) noexcept override {
///     if (occurrence.activity == holdfast::Activity::hold && !occurrence.ok()) ++losses;
///   }
///   std::atomic<int> losses = 0;
/// };
/// @endcode
class HOLDFAST_EXPORT Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// Called when an activity begins. Each call is followed by one call of ended(), on any thread. Not called
  /// for reconnect, fence_regression, clock_jump and unusable_epoch.
  virtual void begun(Activity, std::string_view /*backend*/) noexcept {}
  /// Called when an activity has ended. The occurrence is valid only during the call.
  virtual void ended(const Occurrence& occurrence) noexcept = 0;

  /// Called where an activity begins on a thread of the caller. Returns the value that Occurrence::context
  /// will carry.
  [[nodiscard]] virtual TraceContext context() noexcept { return {}; }
};

/// Returns an observer that notifies all of these, in this order. Nulls in the list are left out; the result
/// is null if no observer remains. Each observer gets the context that it returned itself.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<Observer> observers(std::vector<std::shared_ptr<Observer>> all);

/// Returns a backend that passes everything on to `backend` and reports its operations to `observer`,
/// WatchRequest excepted. With a null observer it returns `backend` itself. To observe waits, holds and
/// renewals, pass the observer to Locks too.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<LockBackend> with_observer(std::shared_ptr<LockBackend> backend,
                                                                         std::shared_ptr<Observer> observer);
/// Returns a storage backend that reports its operations to `observer`, WatchRecord excepted; otherwise as
/// above.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<StorageBackend> with_observer(
    std::shared_ptr<StorageBackend> backend, std::shared_ptr<Observer> observer);

}  // namespace holdfast
