#pragma once

#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <string>

namespace holdfast {

/// Observer that counts what it observes in this process. It costs an operation atomic additions only, and
/// its size does not depend on the number of keys or tasks. It may be shared by any number of engines;
/// engines with the same name are counted together, and beyond eight names the rest are counted as "other".
/// Thread-safe.
///
/// @code
/// auto metrics = std::make_shared<holdfast::Metrics>();
/// auto hf = holdfast::open("memory:", {.metrics = metrics});
/// // in the handler of GET /metrics:
/// response.body = metrics->prometheus();
/// @endcode
class HOLDFAST_EXPORT Metrics final : public Observer {
 public:
  Metrics();
  ~Metrics() override;

  /// Renders all counters in the Prometheus text format, version 0.0.4: serve it as `text/plain;
  /// version=0.0.4`. The names and labels are listed in docs/guide/telemetry.md.
  [[nodiscard]] std::string prometheus() const;

  /// Counts an activity as in progress.
  void begun(Activity activity, std::string_view backend) noexcept override;
  /// Counts the result and the duration of an activity.
  void ended(const Occurrence& occurrence) noexcept override;
  /// Adds to the counter of telemetry events that were dropped because too many were waiting. Called by
  /// Telemetry.
  void count_dropped_events(std::uint64_t count) noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
