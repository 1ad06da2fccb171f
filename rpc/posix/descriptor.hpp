#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <holdfast/error.hpp>
#include <utility>

namespace holdfast::posix {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  void reset() noexcept {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// The caller closes it from now on.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Throws Error(Internal) with the text of errno: for system calls that do not fail on a healthy machine.
[[noreturn]] inline void throw_system_error(const char* what) {
  const int error = errno;
  throw Error(ErrorCode::Internal, what, std::strerror(error));
}

/// The result of a system call, unless it is negative: then throws as throw_system_error.
inline int checked(int result, const char* what) {
  if (result < 0) throw_system_error(what);
  return result;
}

/// A counter that wakes poll(): written by eventfd_write, read by eventfd_read without blocking.
[[nodiscard]] inline Descriptor make_eventfd() {
  return Descriptor(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "cannot create an eventfd"));
}

}  // namespace holdfast::posix
