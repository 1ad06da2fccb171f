#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <holdfast/lock_backend.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/repeated_release.hpp"
#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

/// How long a request may still reach the server after its connection was given up: the connection was reset,
/// so bytes in the network or in the server's kernel are not delivered after this. For this long, the release
/// of an unanswered acquire keeps that acquire from being granted, and the mark of a break outlives the
/// lease.
inline constexpr std::chrono::milliseconds request_may_be_late = std::chrono::seconds(60);

enum class Release : std::uint8_t {
  plain,
  /// By a holder whose proof holds, on a layout that relies on it (LockLayout::relies_on_proofs).
  proven,
  /// For an id with an unanswered acquire: leaves a tombstone.
  for_good,
  /// By an operator: leaves a mark.
  by_force,
};

// Each operation of the lock contract: builds its command and interprets its reply. A command is refused with
// InvalidArgument for a reserved key. An error reply, or one that the script cannot return, becomes an Error
// that carries the request's key and lock id.

/// `floor`: the fence is above this one; the connection may raise it.
[[nodiscard]] Result<RoutedCommand> acquire_command(const Layout& layout, const AcquireRequest& request,
                                                    const RememberedFence& floor, By by);
[[nodiscard]] Result<AcquireOutcome> acquire_outcome(const redisReply& reply, const AcquireRequest& request);
/// What a reply that grants a lock says beyond its outcome.
struct GrantDetails {
  bool repeated = false;  ///< the id held the lock already: the script has written nothing
  /// The fence counter before the grant, if it was below one of the floors.
  std::optional<std::uint64_t> low_counter = std::nullopt;
};
[[nodiscard]] GrantDetails grant_details(const redisReply& reply);

[[nodiscard]] Result<RoutedCommand> release_command(const Layout& layout, const LockRef& lock, Release how,
                                                    By by);
[[nodiscard]] Result<ReleaseOutcome> release_outcome(const redisReply& reply, const LockRef& lock);

/// Reads the evidence whether a release that was sent more than once released the lock.
[[nodiscard]] Result<RoutedCommand> release_evidence_command(const Layout& layout, const LockRef& lock,
                                                             By by);
[[nodiscard]] Result<core::ReleaseEvidence> release_evidence(const redisReply& reply, const LockRef& lock);

[[nodiscard]] Result<RoutedCommand> extend_command(const Layout& layout, const ExtendRequest& request, By by);
[[nodiscard]] Result<ExtendOutcome> extend_outcome(const redisReply& reply, const LockRef& lock);

[[nodiscard]] Result<RoutedCommand> is_locked_command(const Layout& layout, const LockKey& key, By by);
[[nodiscard]] Result<bool> is_locked_outcome(const redisReply& reply, const LockKey& key);

[[nodiscard]] Result<RoutedCommand> lookup_command(const Layout& layout, const LookupRequest& request, By by);
[[nodiscard]] Result<std::optional<LockRecord>> lookup_outcome(const redisReply& reply,
                                                               const LookupRequest& request);

/// Deletes the remains of a lock that expired more than two seconds ago; its reply is ignored.
[[nodiscard]] Result<RoutedCommand> cleanup_command(const Layout& layout, const LockKey& key, By by);

/// The records at these lock keys (the names in Redis).
[[nodiscard]] RoutedCommand records_command(std::span<const std::string> lock_keys, By by);
/// The live locks among them that belong to this layout's prefix, in that order.
[[nodiscard]] Result<std::vector<LockRecord>> records_outcome(const redisReply& reply, const Layout& layout,
                                                              std::span<const std::string> lock_keys);

}  // namespace holdfast::redis
