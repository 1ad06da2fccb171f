#pragma once

#include <cerrno>
#include <cstring>
#include <holdfast/error.hpp>
#include <string>

namespace holdfast::cli {

/// A system call that does not fail on a healthy machine did: exit 70.
[[noreturn]] inline void throw_system_error(const char* what) {
  const int error = errno;
  throw Error(ErrorCode::Internal, what, std::strerror(error));
}

inline int checked(int result, const char* what) {
  if (result < 0) throw_system_error(what);
  return result;
}

}  // namespace holdfast::cli
