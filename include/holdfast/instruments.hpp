#pragma once

#include <holdfast/export.hpp>
#include <holdfast/log.hpp>
#include <holdfast/metrics.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/telemetry.hpp>
#include <holdfast/tracing.hpp>
#include <memory>

namespace holdfast {

/// What is to watch an engine at work; each may be left out. Nothing of it costs anything where it is.
struct Instruments {
  std::shared_ptr<Metrics> metrics = {};
  /// With an on_event. What it drops is counted in the metrics.
  TelemetryOptions telemetry = {};
  std::shared_ptr<Tracer> tracer = {};
  /// As Log::set_sink, but in time for what is said while the engine is opened.
  LogSink log_sink = {};
  /// One of your own.
  std::shared_ptr<Observer> observer = {};
};

/// All of them as one; null if there are none. The log sink is not among them.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<Observer> observer_of(const Instruments& instruments);

}  // namespace holdfast
