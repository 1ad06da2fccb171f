#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <holdfast/fence.hpp>
#include <string_view>

#include "core/lock_decisions.hpp"
#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// The file's fence sequence.
///
/// `last` may be lost with the tail of the write-ahead log in a power cut, `reserved` never: a commit that
/// raises it is on disk before it is answered. Every granted fence is at most `reserved`, so a sequence that
/// continues from `reserved` after a power cut never repeats one. No fence is granted above `in_file` either,
/// up to which the reserve was copied from the log into the database file. So a sequence that continues from
/// that file's value never repeats one, even if the log was removed.
struct FenceSequence {
  std::uint64_t last = 0;
  std::uint64_t reserved = 0;
  std::uint64_t in_file = 0;
  friend bool operator==(const FenceSequence&, const FenceSequence&) = default;
};

/// How far ahead to reserve. Each half block costs two commits and a copy of the log into the file (about a
/// millisecond against the seconds it takes to use it up) and each reboot loses at most one block: at a
/// reboot a second, 285 years' worth.
inline constexpr std::uint64_t fence_block = 100'000;
/// How often to retry the copy of the log while a long reader prevents it.
inline constexpr std::uint64_t grants_between_copies = 1'000;

enum class FenceReserve : std::uint8_t {
  enough,
  low,   ///< it is time to reserve more
  none,  ///< more must be reserved before this fence is granted
};

struct FenceGrant {
  Fence fence;
  FenceReserve reserve = FenceReserve::enough;
};

/// Internal if the sequence is exhausted.
[[nodiscard]] inline Result<FenceGrant> next_fence(const FenceSequence& now) {
  const auto fence = core::next_fence(now.last);
  if (!fence) return fence.error();
  const auto value = fence->value();
  if (value > std::min(now.reserved, now.in_file)) return FenceGrant{*fence, FenceReserve::none};
  const bool half_used = now.reserved < Fence::max_issued && value + fence_block / 2 > now.reserved;
  const bool copy_due = now.in_file < now.reserved && value % grants_between_copies == 0;
  return FenceGrant{*fence, half_used || copy_due ? FenceReserve::low : FenceReserve::enough};
}

/// The sequence with a whole block in reserve. The raised reserve must be on disk before it is used.
[[nodiscard]] inline FenceSequence with_full_reserve(FenceSequence now) noexcept {
  now.reserved = std::max(now.reserved, std::min(now.last + fence_block, Fence::max_issued));
  return now;
}

/// The sequence after a reboot, or without the log.
[[nodiscard]] inline FenceSequence without_lost_tail(FenceSequence now) noexcept {
  const auto high = std::max(now.last, now.reserved);
  return {.last = high, .reserved = high, .in_file = now.in_file};
}

// Whether the last user closed the file, so that the log was copied into it and deleted. Fences granted since
// the last copy are in the log alone, and an operator may remove the log of a file that is not in use: see "A
// missing log" in docs/internals/sqlite.md.

/// The states of a file. They have equal length, because the second overwrites the first in place.
inline constexpr std::string_view closed_cleanly = "closed cleanly";
inline constexpr std::string_view open_or_killed = "open or killed";
static_assert(closed_cleanly.size() == open_or_killed.size());

[[nodiscard]] bool was_closed_cleanly(Connection& connection);

/// Whether the log is empty. Call it inside a transaction that will change the file but has not yet. An empty
/// log means that no commit was written to it since the last user closed the file, or since it was removed.
[[nodiscard]] bool log_is_empty(const Connection& connection);

/// Continues the fences above all that may have been granted. Requires a transaction.
void skip_lost_fences(Connection& connection);

/// Marks the file itself as in use, without waiting for the disk: for the first change after a clean close,
/// before its commit. The mark outlives every process, and after a power cut the fences continue from the
/// reserve anyway.
void mark_in_use(Connection& connection);

/// Marks the file as closed cleanly, just before the connection is closed, if no other is open in any
/// process. The mark reaches the file when SQLite, closing it, copies the log. Requires synchronous=NORMAL;
/// adds no wait for the disk. `is_unmoved`: whether the connection's open files are the ones at their paths;
/// called once no other process can open the file.
/// Returns whether SQLite may copy the log as it closes. Not if another connection was open: it may be gone a
/// moment later, and a log that is copied and deleted without the mark looks like one that was removed.
[[nodiscard]] bool mark_closed_cleanly(Connection& connection,
                                       const std::function<bool()>& is_unmoved) noexcept;

}  // namespace holdfast::sqlite
