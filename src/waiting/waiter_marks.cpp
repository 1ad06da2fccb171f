#include "waiting/waiter_marks.hpp"

#include <unistd.h>

#include <cerrno>
#include <vector>

#include "os/random.hpp"

namespace holdfast::waiting {
namespace {

/// A key's range: 2^22 bytes for its waiters, at one of 2^40 places.
constexpr unsigned range_bits = 22;
constexpr std::uint64_t range_size = std::uint64_t{1} << range_bits;
constexpr std::uint64_t range_count = std::uint64_t{1} << 40U;
/// Attempts to find a byte that no other process has: one in 2^22 is taken by each waiter.
constexpr int most_attempts = 4;

std::uint64_t range_of(WakeWords::Place place) {
  // The lowest bits choose the word of a WakeTable; the middle ones of FNV-1a are as good.
  return ((place.hash >> 8U) % range_count) << range_bits;
}

}  // namespace

WaiterMarks::~WaiterMarks() {
  if (marking_ >= 0) ::close(marking_);
  if (counting_ >= 0) ::close(counting_);
}

void WaiterMarks::add(WakeWords::Place place) noexcept {
  if (!process_.is_current()) return;
  try {
    const std::lock_guard lock(mutex_);
    auto& waiters = waiters_[place.hash];
    if (++waiters.count > 1 || !file_ || marks_ == most_marks) return;
    waiters.marked_byte = mark(place);
    if (waiters.marked_byte) ++marks_;
  } catch (const std::exception&) {
    // It waits uncounted.
  }
}

void WaiterMarks::remove(WakeWords::Place place) noexcept {
  if (!process_.is_current()) return;
  const std::lock_guard lock(mutex_);
  const auto at = waiters_.find(place.hash);
  if (at == waiters_.end() || --at->second.count > 0) return;
  if (const auto byte = at->second.marked_byte) {
    unlock_byte(marking_, *byte);
    --marks_;
  }
  waiters_.erase(at);
}

std::optional<std::uint64_t> WaiterMarks::mark(WakeWords::Place place) {
  if (marking_ < 0) marking_ = file_->open();
  if (marking_ < 0) return std::nullopt;
  for (int i = 0; i < most_attempts; ++i) {
    const auto byte = range_of(place) + os::jitter_bits() % range_size;
    if (lock_byte(marking_, byte)) return byte;
    if (errno != EAGAIN && errno != EACCES) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> WaiterMarks::count(WakeWords::Place place) {
  const std::lock_guard lock(mutex_);
  if (!file_) {
    const auto at = waiters_.find(place.hash);
    return at == waiters_.end() ? 0 : static_cast<std::uint32_t>(at->second.count);
  }
  if (counting_ < 0) counting_ = file_->open();
  if (counting_ < 0) return std::nullopt;
  // The kernel names one lock in a range, not the first one: the rest is on both sides of it.
  struct Range {
    std::uint64_t from, to;
  };
  std::vector<Range> unseen{{range_of(place), range_of(place) + range_size}};
  std::uint32_t found = 0;
  while (!unseen.empty()) {
    const auto [from, to] = unseen.back();
    unseen.pop_back();
    if (from >= to) continue;
    const auto other = find_lock(counting_, from, to - from);
    if (!other.is_known) return std::nullopt;
    if (!other.byte) continue;
    ++found;
    unseen.push_back({from, *other.byte});
    unseen.push_back({*other.byte + 1, to});
  }
  return found;
}

}  // namespace holdfast::waiting
