#include <holdfast/telemetry.hpp>

#include "decorate/owned_occurrence.hpp"
#include "os/process.hpp"
#include "runtime/delivery_queue.hpp"

namespace holdfast {

std::string_view to_string(EventResult result) noexcept {
  return result == EventResult::ok ? "ok" : "fail";
}

namespace {

using decorate::OwnedOccurrence;

class Delivery {
 public:
  explicit Delivery(const TelemetryOptions& options)
      : on_event_(options.on_event), include_raw_(options.include_raw) {}

  void operator()(OwnedOccurrence& owned, std::uint64_t dropped_before) const {
    const auto& what = owned.occurrence;
    TelemetryEvent event{.type = what.activity,
                         .result = what.ok() ? EventResult::ok : EventResult::fail,
                         .reason = what.reason,
                         .key_hash = owned.key_hash(),
                         .lock_id_hash = owned.lock_id_hash(),
                         .key = std::nullopt,
                         .lock_id = std::nullopt,
                         .error = what.error,
                         .backend = std::move(owned.backend),
                         .at = decorate::WallTime().of(what.ended),
                         .duration = what.ended - what.started,
                         .fence = what.fence,
                         .broken_because = std::move(owned.broken_because),
                         .holder = std::move(owned.holder),
                         .attempts = what.attempts,
                         .dropped_before = dropped_before};
    if (may_be_raw(event)) {
      if (!owned.key.empty()) event.key = std::move(owned.key);
      if (!owned.lock_id.empty()) event.lock_id = std::move(owned.lock_id);
    }
    on_event_(event);
  }

 private:
  [[nodiscard]] bool may_be_raw(const TelemetryEvent& event) const noexcept {
    if (const auto* always = std::get_if<bool>(&include_raw_)) return *always;
    try {
      const auto& asked = std::get<1>(include_raw_);
      return asked && asked(event);
    } catch (...) {
      return false;
    }
  }

  const std::function<void(const TelemetryEvent&)> on_event_;
  const std::variant<bool, std::function<bool(const TelemetryEvent&)>> include_raw_;
};

}  // namespace

class Telemetry::Impl {
 public:
  Impl(const TelemetryOptions& options, std::shared_ptr<Metrics> counts)
      : metrics(std::move(counts)), queue(options.max_queued, Delivery(options)) {}

  bool push(const Occurrence& occurrence) noexcept {
    try {
      return queue.push(OwnedOccurrence(occurrence));
    } catch (...) {  // no memory for a copy
      return false;
    }
  }

  const std::shared_ptr<Metrics> metrics;
  const os::ProcessIdentity process;
  runtime::DeliveryQueue<OwnedOccurrence> queue;
};

Telemetry::Telemetry(TelemetryOptions options, std::shared_ptr<Metrics> metrics) {
  if (options.on_event) impl_ = std::make_unique<Impl>(options, std::move(metrics));
}
Telemetry::~Telemetry() = default;

void Telemetry::ended(const Occurrence& occurrence) noexcept {
  if (!impl_ || !impl_->process.is_current()) return;
  if (!impl_->push(occurrence) && impl_->metrics) impl_->metrics->count_dropped_events(1);
}

void Telemetry::flush() {
  if (impl_) impl_->queue.flush();
}

std::shared_ptr<LockBackend> with_telemetry(std::shared_ptr<LockBackend> backend, TelemetryOptions options) {
  if (!options.on_event) return backend;
  return with_observer(std::move(backend), std::make_shared<Telemetry>(std::move(options)));
}

std::shared_ptr<StorageBackend> with_telemetry(std::shared_ptr<StorageBackend> backend,
                                               TelemetryOptions options) {
  if (!options.on_event) return backend;
  return with_observer(std::move(backend), std::make_shared<Telemetry>(std::move(options)));
}

}  // namespace holdfast
