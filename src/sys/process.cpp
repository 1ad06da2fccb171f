#include "sys/process.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace holdfast::sys {
namespace {

/// One page, zero in a forked child. Never unmapped: guards may ask after static destruction.
std::atomic<pid_t>& wiped_on_fork() {
  static std::atomic<pid_t>* const cell = [] {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Without this page a forked child could release its parent's locks: better not to run at all.
    if (page == MAP_FAILED || madvise(page, size, MADV_WIPEONFORK) != 0) std::abort();
    return new (page) std::atomic<pid_t>(getpid());
  }();
  return *cell;
}

}  // namespace

pid_t current_pid() noexcept {
  auto& cell = wiped_on_fork();
  const pid_t known = cell.load(std::memory_order_relaxed);
  if (known != 0) [[likely]]
    return known;
  const pid_t pid = getpid();
  cell.store(pid, std::memory_order_relaxed);
  return pid;
}

Error used_after_fork() {
  return {ErrorCode::ServiceUnavailable,
          "this engine was opened before a fork and works only in the process that opened it; "
          "open engines after forking, not before"};
}

}  // namespace holdfast::sys
