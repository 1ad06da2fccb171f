#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace holdfast::cli {

/// The times of a command under a lock, checked against each other.
struct LeaseTimes {
  std::chrono::milliseconds ttl{};
  /// Zero: no limit.
  std::chrono::milliseconds max_hold{};
  /// From TERM to KILL.
  std::chrono::nanoseconds grace{};
  /// KILL comes this long before the lease's end at the latest.
  std::chrono::nanoseconds margin{};
};

/// As typed.
struct LeaseOptions {
  /// What the option for the ttl is called, with its dashes.
  std::string ttl_name = "--ttl";
  std::string ttl = "30";
  std::optional<std::string> grace;
  std::optional<std::string> max_hold;

  /// Throws UsageError.
  [[nodiscard]] LeaseTimes check() const;
};

}  // namespace holdfast::cli
