#pragma once

#include <cerrno>
#include <holdfast/error.hpp>
#include <string>
#include <system_error>

namespace holdfast::os {

/// The current errno as an Error: AuthFailed for missing permissions, RateLimited for a full disk or quota,
/// else ServiceUnavailable. The message says what to do if the process or the machine has no descriptor left.
[[nodiscard]] inline Error errno_error(std::string message) {
  const int number = errno;
  const bool forbidden = number == EACCES || number == EPERM || number == EROFS;
  const bool full = number == ENOSPC || number == EDQUOT;
  if (number == EMFILE) message += "; raise this process's limit of open files (ulimit -n)";
  if (number == ENFILE) message += "; raise the machine's limit of open files (sysctl fs.file-max)";
  return {forbidden ? ErrorCode::AuthFailed
          : full    ? ErrorCode::RateLimited
                    : ErrorCode::ServiceUnavailable,
          std::move(message), std::generic_category().message(number)};
}

}  // namespace holdfast::os
