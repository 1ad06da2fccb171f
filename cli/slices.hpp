#pragma once

#include <chrono>
#include <holdfast/error.hpp>
#include <holdfast/lock_options.hpp>

namespace holdfast::cli {

/// Half of the time after which a wait without a limit ends if the backend does not answer any more.
inline constexpr std::chrono::milliseconds wait_slice = std::chrono::seconds(30);

/// `attempt(wait)` waits for a lock that long at most and throws as Locks::lock does. With a limit, it is
/// called once. Without one it is called again and again: a single wait without end would try again after
/// each transient error for ever, and nobody would learn that the backend is gone. One slice that ends with
/// such an error proves little (an attempt that its end cut off looks the same); the second in a row is
/// thrown.
template <class Attempt>
auto wait_in_slices(std::chrono::milliseconds limit, const Attempt& attempt) -> decltype(attempt(limit)) {
  if (limit != no_time_limit) return attempt(limit);
  bool failed_before = false;
  while (true) {
    try {
      return attempt(wait_slice);
    } catch (const Error& error) {
      const bool contention = error.code() == ErrorCode::AcquisitionTimeout;
      if (!contention && (failed_before || !error.transient())) throw;
      failed_before = !contention;
    }
  }
}

}  // namespace holdfast::cli
