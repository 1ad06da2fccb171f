#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/owned.hpp>
#include <holdfast/shared_text.hpp>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// How the delay between two retries grows.
enum class Backoff : std::uint8_t {
  exponential,  ///< it doubles with each retry, up to LockOptions::max_delay
  fixed         ///< it is always LockOptions::base_delay
};
/// How much of the delay between two retries is random. Randomness spreads waiters that began together.
enum class Jitter : std::uint8_t {
  equal,  ///< half of the delay is fixed, half is random
  full,   ///< the whole delay is random, from zero up
  none    ///< the delay is used as it is
};

/// Disables the time limit of a wait: for LockOptions::wait.
inline constexpr std::chrono::milliseconds no_time_limit = std::chrono::milliseconds::max();
/// Disables the limit on retries: for LockOptions::retries.
inline constexpr std::uint32_t no_retry_limit = std::numeric_limits<std::uint32_t>::max();

/// How to acquire and hold a lock.
///
/// A trivially destructible aggregate, so `{.ttl = 30s, .wait = 5s}` can be written in every call, in a
/// co_await expression too. A negative duration, or a ttl outside of 1 ms to 366 days, is InvalidArgument.
///
/// A waiter retries after a delay (`base_delay`, `max_delay`, `backoff`, `jitter`), and also as soon as the
/// engine reports a release or the holder's lease expires. It gives up when `wait` or `retries` is used up.
struct LockOptions {
  /// The length of the lease: how long the lock outlives a holder that dies. It does not limit the work of a
  /// living holder, whose guard renews the lease.
  std::chrono::milliseconds ttl = std::chrono::seconds(30);
  /// Give up after this time; 5 s if not set. Zero makes a single attempt. See no_time_limit.
  std::optional<std::chrono::milliseconds> wait = std::nullopt;
  /// Give up after this many retries. If not set: 10, or no limit if `wait` is set. An attempt made because
  /// of a wake-up, or because the holder's lease expired, is not a retry. See no_retry_limit.
  std::optional<std::uint32_t> retries = std::nullopt;
  /// The delay before the first retry, before jitter. At least 1 ms and at most 24 hours are used.
  std::chrono::milliseconds base_delay = std::chrono::milliseconds(100);
  /// Exponential backoff stops growing here. Not used with Backoff::fixed.
  std::chrono::milliseconds max_delay = std::chrono::seconds(1);
  /// How the delay grows.
  Backoff backoff = Backoff::exponential;
  /// How much of the delay is random.
  Jitter jitter = Jitter::equal;
  /// Renew the lease every ttl/3 while the guard lives. If false, the guard is lost `notice` before its proof
  /// ends, unless Guard::extend is called sooner.
  bool auto_renew = true;
  /// The lock is held for this time at most, renewed or not: the guard is lost `notice` before. Counted from
  /// the send of the request that acquired or adopted the lock. Zero: no limit.
  std::chrono::milliseconds max_hold = std::chrono::milliseconds(0);
  /// How much time the holder needs to stop: the guard is lost this long before its proof ends, and from then
  /// on it is not renewed. If not set: a sixth of the ttl, or of `max_hold` if that is shorter, at most 5 s.
  /// Zero: shortly before the end, a hundredth of the ttl, 1 to 50 ms. More than a third of the shorter of
  /// ttl and `max_hold` is InvalidArgument. A ttl that Guard::extend makes shorter allows a third of that.
  std::optional<std::chrono::milliseconds> notice = std::nullopt;
  /// How long the guard's destructor may wait for a running loss callback and for its release. Zero: no
  /// limit other than that of Guard::release.
  std::chrono::milliseconds dispose_timeout = std::chrono::milliseconds(0);
  /// How many replicas of the server must acknowledge the grant and each renewal. If not set: what the
  /// store was opened with (RedisOptions::min_replicas). A grant that too few acknowledge is taken back and
  /// retried; a renewal that too few acknowledge does not count. More than 0 is InvalidArgument on an engine
  /// without replicas. Fewer than all replicas promise nothing after a failover: another one may be promoted.
  std::optional<std::uint32_t> min_replicas = std::nullopt;
  /// The label that is stored with the lock and says who holds it; see LockHolder. Empty: the label of the
  /// opened store. `none`: no label. InvalidArgument if it is longer than 256 bytes or not UTF-8. The text
  /// must be valid until the call returns.
  std::string_view holder = {};
};

namespace detail {

/// A copy of LockOptions that owns its text. Smaller than an OwnedAggregate, because only one member is a
/// view.
class OwnedLockOptions {
 public:
  OwnedLockOptions() = default;
  OwnedLockOptions(const LockOptions& options) : options_(options), holder_(options.holder) {}
  /// Returns the options with a view of the copy, valid while this object lives.
  operator LockOptions() const noexcept {
    LockOptions options = options_;
    options.holder = holder_.str();
    return options;
  }

 private:
  LockOptions options_;  ///< its view may dangle; holder_ has the copy
  SharedText holder_;
};

template <>
struct OwnedArgument<LockOptions> {
  using type = OwnedLockOptions;
};

}  // namespace detail

}  // namespace holdfast
