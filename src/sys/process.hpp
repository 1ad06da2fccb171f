#pragma once

#include <sys/types.h>

#include <holdfast/error.hpp>
#include <optional>
#include <string_view>

namespace holdfast::sys {

/// getpid() without a system call. Right in a forked child too, however it was forked: the value lives in
/// a page that the kernel wipes in the child.
[[nodiscard]] pid_t current_pid() noexcept;

/// Remembers the process that made it.
class Birthplace {
 public:
  Birthplace() noexcept : pid_(current_pid()) {}
  [[nodiscard]] bool is_here() const noexcept { return pid_ == current_pid(); }

 private:
  pid_t pid_;
};

/// What an operation answers in a forked child.
[[nodiscard]] Error used_after_fork();

}  // namespace holdfast::sys
