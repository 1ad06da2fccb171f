#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace holdfast::os {

/// Whether the threads that sleep on a word are of this process, or of all that map the same memory.
struct FutexScope {
  int flags;
  static FutexScope process() noexcept;
  static FutexScope machine() noexcept { return {0}; }
};

/// Futex timeouts stand still while the machine is suspended; short sleeps bound how late the boot clock is
/// read again.
inline constexpr std::chrono::nanoseconds longest_futex_sleep = std::chrono::seconds(1);

inline constexpr std::chrono::nanoseconds no_futex_limit = std::chrono::nanoseconds::max();

/// Sleeps for at most the given time, or without limit with no_futex_limit. True if the word is not
/// `expected`, or after a wake-up whose mask shares a bit with ours.
[[nodiscard]] bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                              std::chrono::nanoseconds at_most, std::uint32_t mask,
                              FutexScope scope) noexcept;

void futex_wake(std::atomic<std::uint32_t>& word, int count, std::uint32_t mask, FutexScope scope) noexcept;

}  // namespace holdfast::os
