#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace holdfast::os {
namespace {

timespec monotonic_after(std::chrono::nanoseconds wait) noexcept {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  const auto total = std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec) + wait;
  const auto whole = std::chrono::floor<std::chrono::seconds>(total);
  return {.tv_sec = whole.count(), .tv_nsec = (total - whole).count()};
}

}  // namespace

FutexScope FutexScope::process() noexcept {
  return {FUTEX_PRIVATE_FLAG};
}

bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most,
                std::uint32_t mask, FutexScope scope) noexcept {
  const timespec until = monotonic_after(std::min(at_most, longest_futex_sleep));
  const auto result = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | scope.flags, expected,
                              at_most == no_futex_limit ? nullptr : &until, nullptr, mask);
  return result == 0 || errno == EAGAIN;
}

void futex_wake(std::atomic<std::uint32_t>& word, int count, std::uint32_t mask, FutexScope scope) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_BITSET | scope.flags, count, nullptr, nullptr, mask);
}

}  // namespace holdfast::os
