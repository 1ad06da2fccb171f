#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <optional>
#include <unordered_map>

#include "engine/redis/conn/call.hpp"

namespace holdfast::redis {

/// Compares the server's clock with ours and finds jumps. An answer with the server's time bounds how far its
/// clock is ahead of ours: that time was read after the request was sent and before the answer came. A later
/// answer whose bounds are more than a second away from these, beyond what drift explains, shows a jump. A
/// jump is reported once: the answer that showed it is the next baseline.
///
/// Our clock counts the time that this machine is suspended, so resuming is no jump. An answer of another
/// connection may be another server's: it only sets the baseline. The servers of a cluster have a baseline
/// each (server_of_connection). Pure.
class ClockJumps {
 public:
  /// A smaller one is not reported: a time service that steps the clock does so from a second on.
  static constexpr BootClock::duration least = std::chrono::seconds(1);
  /// Two clocks drift apart by less than a thousandth: each is slewed by at most 500 ppm.
  static constexpr BootClock::rep drift = 1000;
  /// In the year 2223. A later time is a server's nonsense, and would not fit into nanoseconds.
  static constexpr std::int64_t latest_ms = 8'000'000'000'000;

  /// Returns by how much the server's clock jumped, at least: forwards if positive.
  [[nodiscard]] std::optional<std::chrono::milliseconds> learn(std::int64_t server_ms, BootTime sent,
                                                               BootTime received, std::uint64_t connection) {
    using std::chrono::milliseconds;
    if (server_ms < 0 || server_ms > latest_ms) return std::nullopt;
    const BootClock::duration server = milliseconds(server_ms);
    // TIME is rounded down to the millisecond.
    const Bounds now{.lowest = server - received.time_since_epoch(),
                     .highest = server + milliseconds(1) - sent.time_since_epoch(),
                     .connection = connection,
                     .at = received};
    const auto [entry, is_first] = last_.try_emplace(server_of_connection(connection), now);
    auto& last = entry->second;
    if (is_first || last.connection != connection) {
      last = now;
      return std::nullopt;
    }
    const auto apart = (now.at > last.at ? now.at - last.at : last.at - now.at) / drift;
    const auto lowest = last.lowest - apart, highest = last.highest + apart;
    const auto jump = now.lowest > highest   ? now.lowest - highest
                      : now.highest < lowest ? now.highest - lowest
                                             : BootClock::duration::zero();
    if (jump > least || jump < -least) {
      last = now;
      return std::chrono::round<milliseconds>(jump);
    }
    // The narrower of the two bounds each time, so that one slow answer does not hide a jump.
    last = {.lowest = std::max(lowest, now.lowest),
            .highest = std::min(highest, now.highest),
            .connection = connection,
            .at = now.at};
    if (last.lowest > last.highest) last = now;  // a small step
    return std::nullopt;
  }

 private:
  /// Of the server's clock minus ours.
  struct Bounds {
    BootClock::duration lowest, highest;
    std::uint64_t connection;
    BootTime at;
  };
  std::unordered_map<std::uint64_t, Bounds> last_;  ///< by server
};

}  // namespace holdfast::redis
