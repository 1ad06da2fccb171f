#pragma once

#include <cstdint>
#include <holdfast/telemetry.hpp>

namespace holdfast::cli {

/// Which activities of a store become lines of the JSON log.
enum class LoggedActivities : std::uint8_t {
  none,
  /// What an operator should know of although no command failed: renewals that failed, reconnects, a server
  /// that lost fences, writes that were refused because of their fence.
  incidents,
  /// These, and each lock that is acquired, refused, released, lost or broken.
  all,
};

/// Telemetry that writes them; empty if the format of the log is text.
[[nodiscard]] TelemetryOptions log_activities(LoggedActivities which);

}  // namespace holdfast::cli
