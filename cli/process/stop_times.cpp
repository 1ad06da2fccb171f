#include "process/stop_times.hpp"

#include <algorithm>

namespace holdfast::cli {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

/// What it takes two processors to find, kill and bury one process of many, with what supervises it.
/// Measured: 0.12 ms for small processes, 0.25 ms on a machine that does other work as well.
constexpr nanoseconds per_process = microseconds(300);
/// Where processes cannot be counted: 100 commands of six.
constexpr unsigned if_unknown = 600;

}  // namespace

StopTimes StopTimes::of(nanoseconds length) noexcept {
  return {.grace = std::min<nanoseconds>(std::chrono::seconds(5), length / 6),
          .margin = std::clamp<nanoseconds>(length / 20, milliseconds(10), milliseconds(500)),
          .late = length / 2,
          .earliest_kill = length / 3};
}

nanoseconds StopTimes::kill(std::optional<unsigned> processes) const noexcept {
  const auto needed = margin + per_process * processes.value_or(if_unknown);
  return std::max(margin, std::min(needed, earliest_kill));
}

nanoseconds StopTimes::term(std::optional<unsigned> processes) const noexcept {
  return std::max(grace, kill(processes));
}

}  // namespace holdfast::cli
