#include "os/clock.hpp"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <mutex>

namespace holdfast {

BootTime BootClock::now() noexcept {
  timespec at{};
  clock_gettime(CLOCK_BOOTTIME, &at);
  return BootTime(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
}

}  // namespace holdfast

namespace holdfast::os {

void sleep_until(BootTime until, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const auto left = until - BootClock::now();
    if (left <= BootClock::duration::zero()) break;
    // The sleep is divided into short ones, because this clock stands still while the machine is suspended.
    changed.wait_for(lock, stop, std::min<BootClock::duration>(left, std::chrono::seconds(1)),
                     [] { return false; });
  }
}

}  // namespace holdfast::os
