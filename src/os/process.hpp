#pragma once

#include <atomic>
#include <cstdint>
#include <holdfast/error.hpp>
#include <optional>
#include <string_view>

namespace holdfast::os {

/// A number that identifies this process, without a system call. A forked child gets another one, however it
/// was forked: the number is in a page that the kernel wipes in the child. The pid would not do: in another
/// pid namespace a child can have the same pid as its parent.
[[nodiscard]] inline std::uint64_t this_process() noexcept;

namespace detail {
/// In that page; null before the first use.
extern std::atomic<std::atomic<std::uint64_t>*> process_number;
/// For the first use in this process.
[[nodiscard]] std::uint64_t number_this_process() noexcept;
}  // namespace detail

inline std::uint64_t this_process() noexcept {
  const auto* const number = detail::process_number.load(std::memory_order_acquire);
  const auto known = number != nullptr ? number->load(std::memory_order_relaxed) : 0;
  return known != 0 ? known : detail::number_this_process();
}

/// Remembers the process that made it.
class ProcessIdentity {
 public:
  ProcessIdentity() noexcept : process_(this_process()) {}
  [[nodiscard]] bool is_current() const noexcept { return process_ == this_process(); }

 private:
  std::uint64_t process_;
};

/// The error of every operation in a forked child.
[[nodiscard]] Error used_after_fork();

}  // namespace holdfast::os
