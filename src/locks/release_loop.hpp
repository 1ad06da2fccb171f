#pragma once

#include <chrono>
#include <holdfast/clock.hpp>
#include <holdfast/lock_backend.hpp>
#include <optional>
#include <variant>

namespace holdfast::locks {

/// What becomes of a release whose answer may not come. Pure: it is told answers and times, and says what to
/// send next. Everything that releases goes through here: a guard, a background release, an attempt to
/// acquire that was never answered, a lock whose caller has gone.
///
/// - A holder wants to know whether it was still the holder. It asks a second time at once, and says so
///   (`asked_before`): the engine then judges whether the first request did it.
/// - Of an id in doubt nothing is known but that it may hold the lock, or may yet, with no caller that could
/// release
///   it. Whether it did is of no interest, so a later request is not marked, and "nothing there" is an
///   answer. Until there is one it asks again, after pauses that double, as long as the lock could last.
class ReleaseLoop {
 public:
  enum class For : std::uint8_t { holder, id_in_doubt };

  struct Send {
    BootTime at;  ///< at once if that has passed
  };
  using End = Result<ReleaseOutcome>;
  using Action = std::variant<Send, End>;

  /// The request's deadline is when there is nothing left to release.
  ReleaseLoop(ReleaseRequest request, For whom) : request_(std::move(request)), whom_(whom) {}

  /// What to send, first at once.
  [[nodiscard]] const ReleaseRequest& request() const noexcept { return request_; }
  [[nodiscard]] Action answered(Result<ReleaseOutcome> answer, BootTime now, bool stopped);

  static constexpr std::chrono::milliseconds first_pause{100};
  static constexpr std::chrono::milliseconds longest_pause{5000};

 private:
  ReleaseRequest request_;
  const For whom_;
  std::chrono::milliseconds pause_ = first_pause;
};

}  // namespace holdfast::locks
