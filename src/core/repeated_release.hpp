#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lock_types.hpp>
#include <optional>
#include <string>

namespace holdfast::core {

/// The state of the store after a release that was sent more than once found no lease.
struct ReleaseEvidence {
  bool broken = false;                   ///< an operator broke the lock of this id
  SharedText authority;                  ///< authority of the present fence counters; empty: none
  std::optional<std::uint64_t> counter;  ///< the last fence of the key, 0 if there is none; empty: not read
};

enum class RepeatedRelease : std::uint8_t {
  done,     ///< by an earlier copy
  absent,   ///< the lock was gone before
  unknown,  ///< either of the two
};

/// Longest lifetime of a break's mark, in addition to the time by which it outlives the lease. The limit
/// keeps breaks of year-long locks from filling a store.
inline constexpr std::chrono::milliseconds longest_break_mark = std::chrono::hours(24);

/// Whether an earlier copy of a release freed the lock, if a later copy found no lease. Every other way for
/// the lock to disappear leaves a trace. The traces are read afterwards; for all of them, later is the safe
/// side:
/// - it expired: impossible while the holder's proof holds;
/// - an operator broke it: the mark outlives the lease, hence the proof, or lasts a day. One of a break that
///   came after `confirmed` exists until a day after that at least;
/// - the store lost its data: another authority;
/// - the store went back in time: the counter is below our fence.
/// A counter above our fence proves nothing: a copy that released the lock let the next holder in.
/// Two cases leave no trace: a record deleted by hand, and a restored snapshot whose counter has caught up.
[[nodiscard]] inline RepeatedRelease judge_repeated_release(const std::optional<HolderProof>& proof,
                                                            const ReleaseEvidence& evidence, BootTime now) {
  if (evidence.broken) return RepeatedRelease::absent;
  if (!proof) return RepeatedRelease::unknown;
  const bool went_back = evidence.counter && *evidence.counter < proof->fence.value();
  if (proof->lost || evidence.authority != proof->authority || went_back) return RepeatedRelease::absent;
  const auto mark_lasts = BootClock::duration(longest_break_mark) * 999 / 1000;  // by a clock that drifts
  const BootTime decidable_until = std::min(proof->until, saturating_add(proof->confirmed, mark_lasts));
  return now < decidable_until ? RepeatedRelease::done : RepeatedRelease::unknown;
}

[[nodiscard]] inline Error release_is_unknown() {
  return {ErrorCode::NetworkTimeout,
          "whether the lock was released is unknown: the reply to the first request was lost, and the "
          "repeated request found no such lock. The lock is no longer held"};
}

}  // namespace holdfast::core
