#pragma once

#include <cstdint>
#include <holdfast/error.hpp>
#include <optional>
#include <string_view>

namespace holdfast::os {

/// A number that stands for this process, without a system call. A forked child gets another, however it was
/// forked: the number lives in a page that the kernel wipes in the child. Not the pid: in another pid
/// namespace a child can have its parent's.
[[nodiscard]] std::uint64_t this_process() noexcept;

/// Remembers the process that made it.
class ProcessIdentity {
 public:
  ProcessIdentity() noexcept : process_(this_process()) {}
  [[nodiscard]] bool is_current() const noexcept { return process_ == this_process(); }

 private:
  std::uint64_t process_;
};

/// What an operation answers in a forked child.
[[nodiscard]] Error used_after_fork();

}  // namespace holdfast::os
