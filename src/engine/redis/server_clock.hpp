#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>

namespace holdfast::redis {

/// Estimates the server's time from its answers. An answer with `server_ms` bounds how far the server's clock
/// is ahead of ours: the time was read after the request was sent and before the answer came. An estimate
/// within the bounds is kept, so that slow answers do not make it jump. Otherwise it moves to the nearer
/// bound, so it follows a clock that is set. Thread-safe.
class ServerClock {
 public:
  void learn(std::int64_t server_ms, BootTime sent, BootTime received) noexcept {
    using std::chrono::milliseconds;
    const auto earliest = BootClock::duration(milliseconds(server_ms)).count();
    const auto at_most = earliest + BootClock::duration(milliseconds(1)).count();  // TIME is rounded down
    const auto lowest = earliest - received.time_since_epoch().count();
    const auto highest = std::max(lowest, at_most - sent.time_since_epoch().count());
    auto ahead = ahead_.load(std::memory_order_relaxed);
    // The first answer sets the estimate: the clocks are unrelated.
    while (
        !ahead_.compare_exchange_weak(ahead, std::clamp(ahead, lowest, highest), std::memory_order_relaxed)) {
    }
  }

  [[nodiscard]] WallTime now() const noexcept {
    const BootClock::duration now(BootClock::now().time_since_epoch().count() +
                                  ahead_.load(std::memory_order_relaxed));
    return WallTime(std::chrono::floor<std::chrono::milliseconds>(now));
  }

 private:
  std::atomic<BootClock::rep> ahead_ = 0;  ///< nanoseconds
};

}  // namespace holdfast::redis
