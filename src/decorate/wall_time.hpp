#pragma once

#include <chrono>
#include <holdfast/clock.hpp>

namespace holdfast::decorate {

/// What the machine's other clocks show, or showed, at a moment of the boot clock. By their difference now:
/// two moments converted by one of these are as far apart as they were, however the wall clock was set
/// between.
class WallTime {
 public:
  [[nodiscard]] std::chrono::system_clock::time_point of(BootTime at) const noexcept {
    return system_ - std::chrono::duration_cast<std::chrono::system_clock::duration>(boot_ - at);
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady(BootTime at) const noexcept {
    return steady_ - std::chrono::duration_cast<std::chrono::steady_clock::duration>(boot_ - at);
  }

 private:
  BootTime boot_ = BootClock::now();
  std::chrono::system_clock::time_point system_ = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point steady_ = std::chrono::steady_clock::now();
};

}  // namespace holdfast::decorate
