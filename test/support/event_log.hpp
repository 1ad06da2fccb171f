#pragma once

#include <holdfast/telemetry.hpp>
#include <mutex>
#include <utility>
#include <vector>

namespace holdfast::test {

/// Keeps the telemetry events it gets.
class EventLog {
 public:
  /// What TelemetryOptions::on_event wants. The log must outlive it.
  [[nodiscard]] auto listener() {
    return [this](const TelemetryEvent& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    };
  }

  /// Those that came since it was last asked.
  [[nodiscard]] std::vector<TelemetryEvent> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<TelemetryEvent> events_;
};

}  // namespace holdfast::test
