#include "sys/wake_table.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include "sys/errno_error.hpp"

namespace holdfast::sys {
namespace {

/// Futex timeouts stand still while the machine is suspended; sleeping in slices bounds how late the boot
/// clock is read again.
constexpr std::chrono::nanoseconds longest_sleep = std::chrono::seconds(1);

timespec monotonic_after(std::chrono::nanoseconds wait) noexcept {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  const auto total = std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec) + wait;
  const auto whole = std::chrono::floor<std::chrono::seconds>(total);
  return {.tv_sec = whole.count(), .tv_nsec = (total - whole).count()};
}

/// FNV-1a: the same in every build, because processes of different builds share a file.
std::uint64_t stable_hash(std::string_view key) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

}  // namespace

class WakeTable::KeyWatch final : public Watch {
 public:
  KeyWatch(std::shared_ptr<WakeTable> table, Place place) noexcept
      : table_(std::move(table)), place_(place), seen_(place_.word->changes.load()) {}

  bool wait(BootTime look_again_at, BootTime deadline, const std::stop_token& stop) override {
    const BootTime until = std::min(look_again_at, deadline);
    // Changing the word before waking also reaches a thread that is only about to sleep. Others who sleep
    // here wake for nothing and look again.
    const std::stop_callback interrupt(stop, [this] { table_->wake(place_, INT_MAX); });
    while (!stop.stop_requested()) {
      const auto left = until - BootClock::now();
      if (left <= std::chrono::nanoseconds::zero()) return false;
      if (sleep(std::min<std::chrono::nanoseconds>(left, longest_sleep))) {
        seen_ = place_.word->changes.load();
        return !stop.stop_requested();
      }
    }
    return false;
  }

  void pass_on() noexcept override { table_->wake(place_, 1); }

 private:
  /// True if the word has changed or somebody woke us.
  bool sleep(std::chrono::nanoseconds wait) noexcept {
    const timespec until = monotonic_after(wait);
    place_.word->sleepers.fetch_add(1);
    const auto result = syscall(SYS_futex, &place_.word->changes, FUTEX_WAIT_BITSET | table_->futex_flags_,
                                seen_, &until, nullptr, place_.mask);
    const bool woken = result == 0 || errno == EAGAIN;
    place_.word->sleepers.fetch_sub(1);
    return woken;
  }

  std::shared_ptr<WakeTable> table_;
  Place place_;
  std::uint32_t seen_;
};

WakeTable::WakeTable(void* memory, int futex_flags) noexcept
    : words_(static_cast<Word*>(memory)), futex_flags_(futex_flags) {}

WakeTable::~WakeTable() {
  munmap(words_, byte_count);
}

std::shared_ptr<WakeTable> WakeTable::in_process() {
  void* memory = mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return std::shared_ptr<WakeTable>(new WakeTable(memory, FUTEX_PRIVATE_FLAG));
}

Result<std::shared_ptr<WakeTable>> WakeTable::in_file(const std::filesystem::path& file, mode_t mode) {
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  int fd = ::open(file.c_str(), flags | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) {
    fchmod(fd, mode);  // whatever the umask; if it fails, others poll
  } else if (errno == EEXIST) {
    fd = ::open(file.c_str(), flags);
  }
  if (fd < 0) return errno_error("cannot open " + file.string());
  // Real blocks, because touching a hole of a mapped file on a full disk kills the process (SIGBUS).
  // It never shrinks the file, so processes that start together do no harm to each other.
  int failed = posix_fallocate(fd, 0, byte_count);
  void* memory = MAP_FAILED;
  if (failed == 0) {
    memory = mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) failed = errno;
  }
  ::close(fd);
  if (failed != 0) {
    errno = failed;
    return errno_error("cannot map " + file.string());
  }
  return std::shared_ptr<WakeTable>(new WakeTable(memory, 0));
}

WakeTable::Place WakeTable::place(std::string_view key) const noexcept {
  const auto hash = stable_hash(key);
  return {.word = words_ + hash % word_count, .mask = std::uint32_t{1} << ((hash / word_count) % 32)};
}

void WakeTable::wake(Place place, int count) const noexcept {
  place.word->changes.fetch_add(1);
  if (place.word->sleepers.load() == 0) return;
  syscall(SYS_futex, &place.word->changes, FUTEX_WAKE_BITSET | futex_flags_, count, nullptr, nullptr,
          place.mask);
}

void WakeTable::wake_one(std::string_view key) noexcept {
  wake(place(key), 1);
}

void WakeTable::wake_all(std::string_view key) noexcept {
  wake(place(key), INT_MAX);
}

std::unique_ptr<Watch> WakeTable::watch(std::string_view key) {
  return std::make_unique<KeyWatch>(shared_from_this(), place(key));
}

}  // namespace holdfast::sys
