#pragma once

#include <holdfast/error.hpp>

namespace holdfast::cli {

/// What `holdfast` exits with. `run` otherwise returns its command's own code, or 128 + N if the command died
/// of signal N. The numbers from 64 on are those of sysexits.h, where one fits. docs/reference/cli.md
/// has the same table.
enum ExitCode : int {
  exit_ok = 0,
  exit_not_held = 1,       ///< lock release, extend, show: not held
  exit_unhealthy = 1,      ///< doctor: there is a warning or a problem
  exit_no_task = 1,        ///< task: no such task, or no result yet; wait: timed out
  exit_usage = 64,         ///< bad option or argument; nothing was done
  exit_task_refused = 65,  ///< the task store's rules forbid it; nothing was changed
  exit_unavailable = 69,   ///< the backend cannot be used now
  exit_internal = 70,      ///< a broken promise: of the data, of the system, or of this program
  exit_not_acquired = 75,  ///< the lock has another holder (run and acquire; `-E` changes it)
  exit_try_later = 75,     ///< task: the owner's quota is used up, or other writers kept changing the task
  exit_refused = 77,       ///< the backend refuses us: authentication, permission
  exit_lost = 79,          ///< the lock was lost: the command was stopped, or a write came with an old fence
  exit_task_ended = 80,    ///< task run: another client ended the task, so the command was stopped
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
    case ErrorCode::NotFound:
    case ErrorCode::NotReady:
      return exit_no_task;
    case ErrorCode::InvalidTransition:
    case ErrorCode::TooLarge:
    case ErrorCode::TooDeep:
    case ErrorCode::TtlTooLong:
    case ErrorCode::BadCursor:
    case ErrorCode::RequestKeyConflict:
    case ErrorCode::AnonymousOwner:
      return exit_task_refused;
    case ErrorCode::QuotaExceeded:
    case ErrorCode::ConcurrentChange:
      return exit_try_later;
    case ErrorCode::StaleFence:
    case ErrorCode::WrongLock:
      return exit_lost;
    case ErrorCode::Aborted:
    case ErrorCode::Internal:
      return exit_internal;
  }
  return exit_internal;
}

}  // namespace holdfast::cli
