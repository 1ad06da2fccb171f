#include "os/process.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace holdfast::os {
namespace {

/// One page, zero in a forked child. Never unmapped: guards may read it after static destruction.
std::atomic<std::uint64_t>& wiped_on_fork() {
  static std::atomic<std::uint64_t>* const cell = [] {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Without this page a forked child could release its parent's locks, so the process must not run.
    if (page == MAP_FAILED || madvise(page, size, MADV_WIPEONFORK) != 0) std::abort();
    auto* const number = new (page) std::atomic<std::uint64_t>(0);
    detail::process_number.store(number, std::memory_order_release);
    return number;
  }();
  return *cell;
}

std::uint64_t random_number() noexcept {
  std::uint64_t number = 0;
  while (number == 0) {
    // getrandom waits until the kernel has entropy, then returns 8 bytes at once.
    if (getrandom(&number, sizeof number, 0) != sizeof number && errno != EINTR) std::abort();
  }
  return number;
}

}  // namespace

constinit std::atomic<std::atomic<std::uint64_t>*> detail::process_number = nullptr;

std::uint64_t detail::number_this_process() noexcept {
  auto& cell = wiped_on_fork();
  std::uint64_t known = cell.load(std::memory_order_relaxed);
  if (known != 0) return known;
  const auto fresh = random_number();
  return cell.compare_exchange_strong(known, fresh) ? fresh : known;
}

Error used_after_fork() {
  return {ErrorCode::ServiceUnavailable,
          "this store was opened before a fork and works only in the process that opened it; open it after "
          "the fork"};
}

}  // namespace holdfast::os
