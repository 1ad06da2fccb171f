#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/redis/wire/command.hpp"

namespace holdfast::redis {

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

/// The floor of a grant by a master of this epoch, for a client that remembers a fence of its own.
[[nodiscard]] constexpr std::uint64_t fence_floor_of(std::uint64_t epoch,
                                                     const RememberedFence& own) noexcept {
  const auto floor = fence_floor_of(epoch);
  return own.epoch <= epoch ? std::max(floor, own.fence) : floor;
}

/// Raises the floor at this position of a command; a higher one stays. A call that is sent again keeps the
/// highest floor of its connections: an endpoint never goes back to an older epoch.
inline void raise_fence_floor(std::string& command, std::size_t at, std::uint64_t floor) noexcept {
  const auto digits = fifteen_digits(floor);
  const auto current = std::string_view(command).substr(at, digits.size());
  if (std::string_view(digits.data(), digits.size()) > current) std::ranges::copy(digits, &command[at]);
}

}  // namespace holdfast::redis
