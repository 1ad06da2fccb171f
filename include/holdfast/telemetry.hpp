#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/export.hpp>
#include <holdfast/metrics.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace holdfast {

enum class EventResult : std::uint8_t { ok, fail };
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(EventResult result) noexcept;

/// Something that was done. The names and meanings of the first six members are SyncGuard's; so is_locked
/// fails if nobody holds the lock, as a lookup that finds nothing does.
struct TelemetryEvent {
  Activity type{};
  EventResult result{};
  /// Why it failed, if not by an error.
  Reason reason{};
  /// key_hash of the lock's key or of `owner:task`; empty where the operation knows none.
  std::string key_hash;
  std::string lock_id_hash;
  /// The raw ones, only if `include_raw` says so.
  std::optional<std::string> key;
  std::optional<std::string> lock_id;

  /// The error it failed by. Only its code: a message may name the key.
  std::optional<ErrorCode> error;
  std::string backend;
  /// When it ended, by this machine's clock, and how long it took.
  std::chrono::system_clock::time_point at;
  std::chrono::nanoseconds duration{};
  /// The fence that was granted, found or written with. Not a secret.
  std::optional<Fence> fence;
  /// Of Activity::break_lock: why, in the operator's words.
  std::string broken_because;
  /// Of Activity::wait: how often the engine was asked.
  std::uint32_t attempts = 0;
  /// How many events were dropped since the one before.
  std::uint64_t dropped_before = 0;
};

struct TelemetryOptions {
  /// Runs on a thread of its own, one event after another; it may block or throw without disturbing an
  /// operation. Empty: no telemetry.
  std::function<void(const TelemetryEvent&)> on_event = {};
  /// Whether events carry the raw key and lock id: for all of them, or asked for each, on the same thread.
  /// Whoever reads a lock id can release the lock. A predicate that throws says no.
  std::variant<bool, std::function<bool(const TelemetryEvent&)>> include_raw = false;
  /// Events that wait for `on_event`; those beyond are dropped.
  std::size_t max_queued = 10'000;
};

/// Makes events of what it observes. Keys and lock ids are copied when an operation ends and hashed on the
/// thread that calls on_event; they are forgotten as soon as it has returned. In a forked child events go
/// nowhere.
class HOLDFAST_EXPORT Telemetry final : public Observer {
 public:
  /// `metrics`, which may be null, counts what is dropped.
  explicit Telemetry(TelemetryOptions options, std::shared_ptr<Metrics> metrics = {});
  /// Waits until on_event has seen everything, unless it ends on a thread of the library, as on_event's is.
  ~Telemetry() override;

  void ended(const Occurrence& occurrence) noexcept override;
  /// Waits until on_event has seen what ended before. Not from on_event.
  void flush();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// with_observer, for a Telemetry with these options.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<LockBackend> with_telemetry(
    std::shared_ptr<LockBackend> backend, TelemetryOptions options);
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<StorageBackend> with_telemetry(
    std::shared_ptr<StorageBackend> backend, TelemetryOptions options);

}  // namespace holdfast
