#include "bench/samples.hpp"

#include <algorithm>
#include <cmath>

namespace holdfast::cli {

void Samples::add(const Samples& others) {
  all_.insert(all_.end(), others.all_.begin(), others.all_.end());
  is_sorted_ = false;
}

std::chrono::nanoseconds Samples::percentile(double part) const {
  if (!is_sorted_) std::ranges::sort(all_);
  is_sorted_ = true;
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(all_.size())));
  return all_[std::clamp<std::size_t>(rank, 1, all_.size()) - 1];
}

Pace::Clock::time_point Pace::next_turn(Clock::time_point now) noexcept {
  const auto turn = std::max<Clock::time_point>(next_, now - most_overdue);
  next_ = turn + period_;
  return turn;
}

}  // namespace holdfast::cli
