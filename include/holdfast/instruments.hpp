#pragma once

#include <holdfast/export.hpp>
#include <holdfast/log.hpp>
#include <holdfast/metrics.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/telemetry.hpp>
#include <holdfast/tracing.hpp>
#include <memory>

namespace holdfast {

/// The instruments that observe an engine, for open(). Each is optional, and costs nothing if it is left out.
///
/// @code
/// auto hf = holdfast::open("memory:", {.metrics = std::make_shared<holdfast::Metrics>()});
/// @endcode
struct Instruments {
  /// Counters in this process; may be shared with other engines.
  std::shared_ptr<Metrics> metrics = {};
  /// An event for each activity, if it has an `on_event`. Events that it drops are counted in `metrics`.
  TelemetryOptions telemetry = {};
  /// Spans for a tracing system.
  std::shared_ptr<Tracer> tracer = {};
  /// Receives the log messages, as with Log::set_sink, but those during open() too.
  LogSink log_sink = {};
  /// Your own observer.
  std::shared_ptr<Observer> observer = {};
};

/// Returns one observer that stands for all of these instruments but the log sink; null if there are none.
/// open() calls it; call it yourself if you construct a backend yourself.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<Observer> observer_of(const Instruments& instruments);

}  // namespace holdfast
