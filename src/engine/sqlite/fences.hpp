#pragma once

#include <algorithm>
#include <cstdint>
#include <holdfast/fence.hpp>

#include "core/fence_limits.hpp"

namespace holdfast::sqlite {

/// The file's fence sequence.
///
/// `last` may be lost with the tail of the write-ahead log in a power cut, `reserved` never: whatever raises
/// it is on disk before it is answered. Every fence granted is at most `reserved`, so a sequence that goes
/// on from `reserved` after a power cut never repeats one.
struct FenceSequence {
  std::uint64_t last = 0;
  std::uint64_t reserved = 0;
  friend bool operator==(const FenceSequence&, const FenceSequence&) = default;
};

/// How far ahead to reserve. Each block costs one commit that waits for the disk (about half a millisecond
/// against the seconds it takes to use up a block) and each reboot loses at most one block: at a reboot a
/// second, 285 years' worth.
inline constexpr std::uint64_t fence_block = 100'000;

struct FenceGrant {
  Fence fence;
  FenceSequence after;
  bool raises_reserve = false;  ///< then the grant must be on disk before it is answered
};

/// Internal if the sequence is used up.
[[nodiscard]] inline Result<FenceGrant> next_fence(FenceSequence now) {
  const auto fence = core::next_fence(now.last);
  if (!fence) return fence.error();
  FenceGrant grant{.fence = *fence, .after = {.last = fence->value(), .reserved = now.reserved}};
  if (grant.after.last > now.reserved) {
    grant.raises_reserve = true;
    grant.after.reserved = std::min(grant.after.last + fence_block, Fence::max_issued);
  }
  return grant;
}

/// After a reboot.
[[nodiscard]] inline FenceSequence without_lost_tail(FenceSequence now) noexcept {
  const auto high = std::max(now.last, now.reserved);
  return {.last = high, .reserved = high};
}

}  // namespace holdfast::sqlite
