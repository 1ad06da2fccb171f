#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The floor of a connection whose server has no epoch, as a command carries it.
inline constexpr std::string_view no_fence_floor = "000000000000000";
/// More grants of one key than there are in an epoch.
inline constexpr std::uint64_t fences_per_epoch = 1'000'000'000;
/// The highest epoch whose floor is applied: the fences above it stay below the warning level.
inline constexpr std::uint64_t highest_epoch = 90'000;

/// All fences of an epoch are above its floor, and so above all fences of earlier epochs. A failover may lose
/// the last steps of a counter, but not the epoch. 0: the epoch is too high to be applied. See
/// docs/internals/redis.md, "Fences across a failover".
[[nodiscard]] constexpr std::uint64_t fence_floor_of(std::uint64_t epoch) noexcept {
  return epoch <= highest_epoch ? epoch * fences_per_epoch : 0;
}

/// Replaces the 15 digits at this position of a command.
inline void write_fence_floor(std::string& command, std::size_t at, std::uint64_t floor) noexcept {
  for (std::size_t i = no_fence_floor.size(); i-- > 0; floor /= 10) {
    command[at + i] = static_cast<char>('0' + floor % 10);
  }
}

}  // namespace holdfast::redis
