#pragma once

#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <string>

namespace holdfast {

/// Counts what it observes, in this process. Nothing but atomic additions on the way of an operation; nothing
/// here grows with the number of keys. May be shared by any number of engines.
class HOLDFAST_EXPORT Metrics final : public Observer {
 public:
  Metrics();
  ~Metrics() override;

  /// All of it in the Prometheus text format, version 0.0.4: serve it as `text/plain; version=0.0.4`. The
  /// names and labels are listed in docs/guide/telemetry.md.
  [[nodiscard]] std::string prometheus() const;

  void begun(Activity activity, std::string_view backend) noexcept override;
  void ended(const Occurrence& occurrence) noexcept override;
  /// Telemetry events that were not delivered because too many were waiting.
  void count_dropped_events(std::uint64_t count) noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
