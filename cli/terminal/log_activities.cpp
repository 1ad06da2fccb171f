#include "terminal/log_activities.hpp"

#include <atomic>
#include <chrono>
#include <optional>

#include "terminal/log.hpp"

namespace holdfast::cli {
namespace {

std::atomic<bool> reconnects_fail = false;

std::optional<LogDetails> incident_of(const TelemetryEvent& event) {
  const bool ok = event.result == EventResult::ok;
  switch (event.type) {
    case Activity::renew:
      if (ok) return std::nullopt;
      return LogDetails{.event = "renewal_failed", .level = LogSeverity::warning};
    case Activity::reconnect:
      // Attempts come every second or so: a server that stays away for hours must not fill the log.
      if (reconnects_fail.exchange(!ok) == !ok && !ok) return std::nullopt;
      if (ok) return LogDetails{.event = "reconnected"};
      return LogDetails{.event = "reconnect_failed", .level = LogSeverity::warning};
    case Activity::fence_regression:
      return LogDetails{.event = "fence_regression", .level = LogSeverity::error};
    case Activity::clock_jump:
      return LogDetails{.event = "clock_jump", .level = LogSeverity::error};
    case Activity::unusable_epoch:
      return LogDetails{.event = "unusable_epoch", .level = LogSeverity::error};
    default:
      break;
  }
  if (event.reason == Reason::stale_fence || event.reason == Reason::wrong_lock) {
    return LogDetails{.event = "write_refused", .level = LogSeverity::warning};
  }
  return std::nullopt;
}

std::optional<LogDetails> use_of(const TelemetryEvent& event) {
  const bool ok = event.result == EventResult::ok;
  switch (event.type) {
    case Activity::wait:
      if (ok) return LogDetails{.event = "lock_acquired"};
      if (event.error && *event.error != ErrorCode::AcquisitionTimeout) {
        return LogDetails{.event = "lock_wait_failed", .level = LogSeverity::warning};
      }
      return LogDetails{.event = "lock_refused"};
    case Activity::hold:
      if (ok) return LogDetails{.event = "lock_released"};
      return LogDetails{.event = "lock_lost", .level = LogSeverity::error};
    case Activity::break_lock:
      if (!ok) return std::nullopt;
      return LogDetails{.event = "lock_broken", .level = LogSeverity::warning};
    default:
      return std::nullopt;
  }
}

void log_activity(const TelemetryEvent& event, LoggedActivities which) {
  auto details = incident_of(event);
  if (!details && which == LoggedActivities::all) details = use_of(event);
  if (!details) return;
  auto& fields = details->fields;
  fields.push_back({.name = "backend", .value = event.backend});
  if (event.key) {
    fields.push_back({.name = "key", .value = *event.key});
  } else if (!event.key_hash.empty()) {
    fields.push_back({.name = "key_hash", .value = event.key_hash});
  }
  if (event.fence) fields.push_back({.name = "fence", .value = event.fence->to_string()});
  if (!event.holder.empty()) fields.push_back({.name = "holder", .value = event.holder});
  if (event.reason != Reason::none) {
    fields.push_back({.name = "reason", .value = std::string(to_string(event.reason))});
  }
  if (!event.broken_because.empty()) fields.push_back({.name = "reason", .value = event.broken_because});
  if (event.error) fields.push_back({.name = "code", .value = std::string(to_string(*event.error))});
  if (event.attempts > 0) fields.push_back({.name = "attempts", .value = std::int64_t{event.attempts}});
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(event.duration);
  fields.push_back({.name = "duration_ms", .value = std::int64_t{took.count()}});
  if (event.dropped_before > 0) {
    fields.push_back({.name = "dropped_before", .value = static_cast<std::int64_t>(event.dropped_before)});
  }
  log_event(*details);
}

}  // namespace

TelemetryOptions log_activities(LoggedActivities which) {
  if (!logs_json() || which == LoggedActivities::none) return {};
  return {.on_event = [which](const TelemetryEvent& event) { log_activity(event, which); },
          .include_raw = log_settings().keys};
}

}  // namespace holdfast::cli
