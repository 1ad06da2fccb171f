#include <ctime>
#include <holdfast/clock.hpp>

namespace holdfast {

BootTime BootClock::now() noexcept {
  timespec at{};
  clock_gettime(CLOCK_BOOTTIME, &at);
  return BootTime(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
}

}  // namespace holdfast
