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

/// Why something did not do what was asked, other than by an error.
enum class Reason : std::uint8_t {
  none,
  locked,     ///< somebody else holds the lock
  expired,    ///< it was held by this id, whose time is over
  not_found,  ///< nothing is there, or it is another's
  exists,     ///< a record to be created is there already
  quota,
  conflict,  ///< another version than expected
  stale_fence,
  wrong_lock,
  // Of a lost guard, as LossReason.
  unproven,
  gone,
  max_hold,
};
inline constexpr std::size_t reason_count = static_cast<std::size_t>(Reason::max_hold) + 1;
/// "locked", "not-found", "stale-fence"; empty for none.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(Reason reason) noexcept;

/// Something of the caller's that is carried along to the end of what he called; see Tracer::context.
using TraceContext = std::shared_ptr<const void>;

/// What was done and how it ended. A value whose views are valid during the call only.
struct Occurrence {
  Activity activity{};
  /// The engine's name.
  std::string_view backend;
  BootTime started;
  BootTime ended;
  Reason reason = Reason::none;
  std::optional<ErrorCode> error = std::nullopt;
  /// The key of the lock, or `owner:task` of the record. Raw: whoever shows it shows its hash.
  std::string_view key = {};
  /// Raw as well, and a capability besides: whoever has it can release the lock.
  std::string_view lock_id = {};
  std::optional<Fence> fence = std::nullopt;
  /// Of break_lock: the operator's reason.
  std::string_view broken_because = {};
  /// Of wait: how often the engine was asked.
  std::uint32_t attempts = 0;
  TraceContext context = {};

  [[nodiscard]] bool ok() const noexcept { return reason == Reason::none && !error; }
};

/// Somebody who is told what the library does: Metrics, Telemetry, or one of your own.
///
/// It is called in the middle of the work: from any thread, several at once, those that read the server's
/// answers and renew leases among them, and possibly under a mutex of the library. So it must not block, nor
/// call the library. What takes longer belongs in a queue; Telemetry has one.
class HOLDFAST_EXPORT Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// Each is followed by one `ended`, on whichever thread. Not called for reconnect.
  virtual void begun(Activity, std::string_view /*backend*/) noexcept {}
  virtual void ended(const Occurrence& occurrence) noexcept = 0;

  /// Asked for where something begins on a thread of the caller's: what its Occurrence carries.
  [[nodiscard]] virtual TraceContext context() noexcept { return {}; }
};

/// One that tells them all, in this order. Null for an empty list; nulls in it are left out. Each is
/// told its own context.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<Observer> observers(std::vector<std::shared_ptr<Observer>> all);

/// The same backend, whose operations are told to the observer. Everything else is passed through. With a
/// null observer, the backend itself.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<LockBackend> with_observer(std::shared_ptr<LockBackend> backend,
                                                                         std::shared_ptr<Observer> observer);
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<StorageBackend> with_observer(
    std::shared_ptr<StorageBackend> backend, std::shared_ptr<Observer> observer);

}  // namespace holdfast
