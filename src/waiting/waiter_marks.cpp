#include "waiting/waiter_marks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
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

struct flock bytes(short kind, std::uint64_t from, std::uint64_t count) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(from);
  lock.l_len = static_cast<off_t>(count);
  return lock;
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
    auto unlock = bytes(F_UNLCK, *byte, 1);
    ::fcntl(marking_, F_OFD_SETLK, &unlock);
    --marks_;
  }
  waiters_.erase(at);
}

std::optional<std::uint64_t> WaiterMarks::mark(WakeWords::Place place) {
  if (marking_ < 0) marking_ = open_file();
  if (marking_ < 0) return std::nullopt;
  for (int i = 0; i < most_attempts; ++i) {
    const auto byte = range_of(place) + os::jitter_bits() % range_size;
    auto lock = bytes(F_WRLCK, byte, 1);
    if (::fcntl(marking_, F_OFD_SETLK, &lock) == 0) return byte;
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
  if (counting_ < 0) counting_ = open_file();
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
    auto other = bytes(F_WRLCK, from, to - from);
    if (::fcntl(counting_, F_OFD_GETLK, &other) != 0) return std::nullopt;
    if (other.l_type == F_UNLCK) continue;
    ++found;
    const auto at = static_cast<std::uint64_t>(other.l_start);
    unseen.push_back({from, at});
    unseen.push_back({at + 1, to});
  }
  return found;
}

int WaiterMarks::open_file() const noexcept {
  const int fd = ::open(file_->path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return -1;
  struct stat found{};
  if (::fstat(fd, &found) == 0 && found.st_dev == file_->device && found.st_ino == file_->inode) return fd;
  ::close(fd);
  return -1;
}

}  // namespace holdfast::waiting
