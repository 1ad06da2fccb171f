#pragma once

#include <chrono>
#include <optional>

namespace holdfast::cli {

/// When a command is stopped, as lengths of time before the proof of its lease ends.
struct StopTimes {
  /// Between TERM and KILL; also how long before the end TERM is sent.
  std::chrono::nanoseconds grace{};
  /// KILL is sent this long before the end at the latest, so that no process outlives the lease: if no other
  /// command is stopped at the same time.
  std::chrono::nanoseconds margin{};
  /// A lease of which less than this is left was not renewed when it was due. Longer than the times below.
  std::chrono::nanoseconds late{};
  /// However much is to be stopped at the same time, KILL is not sent earlier than this before the end,
  /// unless `margin` is longer.
  std::chrono::nanoseconds earliest_kill{};

  /// For a lease, or a hold, of this length, with the usual grace.
  [[nodiscard]] static StopTimes of(std::chrono::nanoseconds length) noexcept;

  /// When KILL is sent if all commands that may have to be stopped have this many processes, of which this
  /// machine stops a number at a time. Nothing: it is not known.
  [[nodiscard]] std::chrono::nanoseconds kill(std::optional<unsigned> processes) const noexcept;
  /// When TERM is sent, and KILL if that is due at the same time.
  [[nodiscard]] std::chrono::nanoseconds term(std::optional<unsigned> processes) const noexcept;
};

}  // namespace holdfast::cli
