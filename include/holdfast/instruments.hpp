#pragma once

#include <holdfast/export.hpp>
#include <holdfast/log.hpp>
#include <holdfast/metrics.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/telemetry.hpp>
#include <holdfast/tracing.hpp>
#include <memory>
#include <string>

namespace holdfast {

/// The instruments that observe an engine, and the label of its grants, for open(). Each is optional. An
/// instrument costs nothing if it is left out.
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
  /// The label of the locks that are acquired, as LockOptions::holder. Empty: the URL's parameter `holder`,
  /// or else the environment variable HOLDFAST_HOLDER, or else the default label: `user@host:pid program`.
  std::string holder = {};
  /// The name of the program in the default label. Empty: the base name of the executable.
  std::string program = {};
};

/// Returns one observer that stands for all of these instruments but the log sink and the label; null if
/// there are none. open() calls it; call it yourself if you construct a backend yourself.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<Observer> observer_of(const Instruments& instruments);

}  // namespace holdfast
