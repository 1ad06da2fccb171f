#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/owned.hpp>
#include <limits>
#include <optional>

namespace holdfast {

enum class Backoff : std::uint8_t { exponential, fixed };
enum class Jitter : std::uint8_t { equal, full, none };

/// For `LockOptions::wait` and `LockOptions::retries`: no limit.
inline constexpr std::chrono::milliseconds no_time_limit = std::chrono::milliseconds::max();
inline constexpr std::uint32_t no_retry_limit = std::numeric_limits<std::uint32_t>::max();

/// How to take and keep a lock. A trivially destructible aggregate, so `{.ttl = 30s, .wait = 5s}` works
/// everywhere, in a co_await expression too.
struct LockOptions {
  /// How long the lock outlives its holder's death. Renewal keeps a living holder's lock for as long as
  /// it needs.
  std::chrono::milliseconds ttl = std::chrono::seconds(30);
  /// Give up after this long: 5 s if not set. Zero makes a single attempt.
  std::optional<std::chrono::milliseconds> wait = std::nullopt;
  /// Give up after this many retries. If not set: 10, or no limit where `wait` is set. An attempt made
  /// because of a wake-up, or because the holder's lease ran out, is not a retry.
  std::optional<std::uint32_t> retries = std::nullopt;
  std::chrono::milliseconds base_delay = std::chrono::milliseconds(100);
  /// Exponential backoff stops growing here.
  std::chrono::milliseconds max_delay = std::chrono::seconds(1);
  Backoff backoff = Backoff::exponential;
  /// equal: half the delay fixed, half random. full: all of it random.
  Jitter jitter = Jitter::equal;
  /// Renew every ttl/3 until the guard ends.
  bool auto_renew = true;
  /// The guard counts as lost after this long, renewed or not. Zero: no limit.
  std::chrono::milliseconds max_hold = std::chrono::milliseconds(0);
  /// How long the destructor's release may take. Zero: no limit of its own.
  std::chrono::milliseconds dispose_timeout = std::chrono::milliseconds(0);
};
template <>
struct detail::OwnedArgument<LockOptions> : OwnedAsItIs<LockOptions> {};

}  // namespace holdfast
