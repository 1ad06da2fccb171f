#pragma once

#include <chrono>
#include <holdfast/clock.hpp>
#include <holdfast/lock_backend.hpp>
#include <optional>

namespace holdfast::locks {

/// Decides the retries of a release whose answer may be lost. Pure: its inputs are answers and times, its
/// output is the time of the next request. Every release uses it: of a guard, in the background, of an
/// acquire attempt that was never answered, of a lock whose caller is gone.
///
/// - A holder needs to know whether it still held the lock. It resends once, at once, and marks that
///   (`asked_before`): the engine then decides whether the first request released the lock.
/// - An id in doubt may hold the lock, or may still get it, and no caller could release it. Whether it held
///   the lock does not matter, so later requests are not marked, and "absent" is an answer. Until it gets an
///   answer it resends, after pauses that double, for as long as the lease could last.
class ReleaseLoop {
 public:
  enum class For : std::uint8_t { holder, id_in_doubt };

  /// The request's deadline: after it there is nothing left to release.
  ReleaseLoop(ReleaseRequest request, For whom) : request_(std::move(request)), whom_(whom) {}

  /// The request to send; the first one at once.
  [[nodiscard]] const ReleaseRequest& request() const noexcept { return request_; }
  /// When to send the request again, at once if that has passed; empty if the answer is final.
  [[nodiscard]] std::optional<BootTime> resend_at(const Result<ReleaseOutcome>& answer, BootTime now,
                                                  bool stopped);

  static constexpr std::chrono::milliseconds first_pause{100};
  static constexpr std::chrono::milliseconds longest_pause{5000};

 private:
  ReleaseRequest request_;
  const For whom_;
  std::chrono::milliseconds pause_ = first_pause;
};

}  // namespace holdfast::locks
