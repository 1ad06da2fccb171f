#pragma once

#include <holdfast/error.hpp>

namespace holdfast::cli {

/// What `holdfast` exits with. `run` otherwise passes on its command's own code, or 128 + N if the command
/// died of signal N. The numbers from 64 on are those of sysexits.h, where one fits. docs/reference/cli.md
/// has the same table.
enum ExitCode : int {
  exit_ok = 0,
  exit_not_held = 1,          ///< lock release, extend, show: nobody holds that
  exit_unhealthy = 1,         ///< doctor: there is a warning or a problem
  exit_usage = 64,            ///< bad option or argument; nothing was done
  exit_unavailable = 69,      ///< the backend cannot be used now
  exit_internal = 70,         ///< a broken promise: of the data, of the system, or of this program
  exit_not_acquired = 75,     ///< somebody else holds the lock (run and acquire; `-E` changes it)
  exit_refused = 77,          ///< the backend refuses us: authentication, permission
  exit_lost = 79,             ///< the lock was lost while the command ran, and the command was ended
  exit_cannot_execute = 126,  ///< the command was found and cannot be run
  exit_not_found = 127,       ///< the command was not found
  exit_signal_base = 128,     ///< + N: ended by signal N
};

[[nodiscard]] constexpr int exit_code_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return exit_usage;
    case ErrorCode::ServiceUnavailable:
    case ErrorCode::NetworkTimeout:
    case ErrorCode::RateLimited:
      return exit_unavailable;
    case ErrorCode::AuthFailed:
      return exit_refused;
    case ErrorCode::AcquisitionTimeout:
      return exit_not_acquired;
    case ErrorCode::Aborted:
    case ErrorCode::Internal:
      return exit_internal;
  }
  return exit_internal;
}

}  // namespace holdfast::cli
