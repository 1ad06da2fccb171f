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

/// Whether an activity did what was asked.
enum class EventResult : std::uint8_t {
  ok,   ///< it did
  fail  ///< it did not: TelemetryEvent::reason or TelemetryEvent::error has the cause
};
/// Returns "ok" or "fail". The view is valid forever.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(EventResult result) noexcept;

/// One activity that has ended, as it is delivered to TelemetryOptions::on_event. It owns its data. The names
/// and meanings of the first six members are SyncGuard's; so `is_locked` fails if the lock is free, as a
/// lookup that finds nothing does.
struct TelemetryEvent {
  /// What was done.
  Activity type{};
  /// Whether it did what was asked.
  EventResult result{};
  /// Why it failed, if not by an error.
  Reason reason{};
  /// key_hash() of the lock's key or of `owner:task`; empty if the operation knows no key.
  std::string key_hash;
  /// key_hash() of the lock id; empty if the operation knows none.
  std::string lock_id_hash;
  /// The raw key, only if `include_raw` allows it.
  std::optional<std::string> key;
  /// The raw lock id, only if `include_raw` allows it. Its reader can release the lock.
  std::optional<std::string> lock_id;

  /// The error that it failed with. Only its code, because a message may contain the key.
  std::optional<ErrorCode> error;
  /// The engine's name.
  std::string backend;
  /// When it ended, by this machine's clock.
  std::chrono::system_clock::time_point at;
  /// How long it took.
  std::chrono::nanoseconds duration{};
  /// The fence that was granted, found or written with. Not a secret.
  std::optional<Fence> fence;
  /// Of Activity::break_lock: the operator's reason.
  std::string broken_because;
  /// The label of the lock's holder; empty if it is not known or has none. Of a refused acquire or wait: of
  /// the holder that has the lock. Of Activity::break_lock: of the holder that lost it. Chosen by the holder:
  /// use printable() where it is shown.
  std::string holder;
  /// Of Activity::wait: how many acquire requests were sent to the engine.
  std::uint32_t attempts = 0;
  /// How many events were dropped since the event before.
  std::uint64_t dropped_before = 0;
};

/// What Telemetry delivers, and where to.
struct TelemetryOptions {
  /// Receives the events, one after another, on a separate thread. It may block or throw without disturbing
  /// an operation; what it throws is ignored. It must not use the engine whose events it receives: each of
  /// its calls would cause an event too. Empty: no telemetry.
  std::function<void(const TelemetryEvent&)> on_event = {};
  /// Whether events carry the raw key and lock id: for all events, or decided for each by a predicate, which
  /// is called on the same thread as on_event. Every reader of a lock id can release the lock. A predicate
  /// that is empty or throws counts as false.
  std::variant<bool, std::function<bool(const TelemetryEvent&)>> include_raw = false;
  /// How many events may wait for `on_event`; further ones are dropped and counted in `dropped_before`.
  std::size_t max_queued = 10'000;
};

/// Observer that turns activities into events and delivers them on a separate thread.
///
/// Keys and lock ids are copied when an operation ends and hashed on the thread that calls on_event; the
/// copies are destroyed as soon as it has returned. An operation pays for these copies, never for on_event.
/// In a forked child, events are discarded.
///
/// @code
/// auto hf = holdfast::open("memory:", {.telemetry = {.on_event = [](const holdfast::TelemetryEvent& event) {
///   std::cerr << to_string(event.type) << ' ' << to_string(event.result) << '\n';
/// }}});
/// @endcode
class HOLDFAST_EXPORT Telemetry final : public Observer {
 public:
  /// Starts nothing yet: the thread is started by the first event. `metrics`, which may be null, counts the
  /// events that are dropped.
  explicit Telemetry(TelemetryOptions options, std::shared_ptr<Metrics> metrics = {});
  /// Waits until on_event has received all events, unless the destructor runs on a thread of the library,
  /// such as that of on_event: then it does not wait.
  ~Telemetry() override;

  /// Copies the occurrence into the queue. Never blocks on on_event; drops the event if the queue is full.
  void ended(const Occurrence& occurrence) noexcept override;
  /// Waits until on_event has received the events of all activities that ended before. Do not call it from
  /// on_event: on a thread of the library it returns without waiting.
  void flush();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns with_observer() of `backend` and a new Telemetry with these options; without an on_event,
/// `backend` itself.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<LockBackend> with_telemetry(
    std::shared_ptr<LockBackend> backend, TelemetryOptions options);
/// Does the same for a storage backend.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<StorageBackend> with_telemetry(
    std::shared_ptr<StorageBackend> backend, TelemetryOptions options);

}  // namespace holdfast
