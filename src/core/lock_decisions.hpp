#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/lock_backend.hpp>
#include <optional>
#include <string>
#include <variant>

#include "core/liveness.hpp"
#include "core/repeated_release.hpp"

/// Decides how each lock operation changes the stored lease. An engine finds the lease, calls a function here
/// and carries out the decision, all within one atomic step. The Lua scripts of Redis are a second
/// implementation; the same contract tests check both.
namespace holdfast::core {

/// A stored lease, live or expired. Its expiry is on the clock that the engine's leases run on, and so is
/// every `now` below.
struct StoredLease {
  LockId id;
  std::chrono::milliseconds expires_at = {};
};

/// Whether any holder has the lock.
[[nodiscard]] inline bool is_held(const std::optional<StoredLease>& there,
                                  std::chrono::milliseconds now) noexcept {
  return there && !is_due(there->expires_at, now);
}

[[nodiscard]] inline bool is_held_by(const LockId& id, const std::optional<StoredLease>& there,
                                     std::chrono::milliseconds now) noexcept {
  return is_held(there, now) && there->id == id;
}

/// The answer of an engine without replicas to a request that wants some to acknowledge it.
[[nodiscard]] inline std::optional<Error> refuse_replicas(std::optional<std::uint32_t> min_replicas) {
  if (min_replicas.value_or(0) == 0) return std::nullopt;
  return Error(ErrorCode::InvalidArgument,
               "min_replicas: this engine has no replicas to acknowledge a lock. Use Redis, or 0");
}

/// The answer to a request for the waiters of too many keys.
[[nodiscard]] inline std::optional<Error> refuse_too_many(const WaitersRequest& request) {
  if (request.keys.size() <= max_list_limit) return std::nullopt;
  return Error(ErrorCode::InvalidArgument, "the waiters of at most " + std::to_string(max_list_limit) +
                                               " keys can be counted at once. Pass fewer keys");
}
/// The answer to a request for the locks of too many keys.
[[nodiscard]] inline std::optional<Error> refuse_too_many(const ListRequest& request) {
  if (request.only.size() <= max_list_limit) return std::nullopt;
  return Error(ErrorCode::InvalidArgument, "the locks of at most " + std::to_string(max_list_limit) +
                                               " keys can be listed at once. Pass fewer keys");
}

/// Store a new lease for the id, with the next fence. It replaces the leases of the key and of the id, which
/// have expired.
struct Grant {
  std::chrono::milliseconds expires_at = {};
};
/// The id already holds the key: return its lease and its fence.
struct GrantAgain {};
/// The id holds another key: the answer is id_holds_another_key().
struct IdInUse {};

using AcquireDecision = std::variant<Grant, GrantAgain, Refused, IdInUse>;

/// `at_key`: the lease at the requested key. `of_id`: the lease at another key, found through the store's
/// index of ids. That index may be out of date, so the lease itself decides.
[[nodiscard]] inline AcquireDecision decide_acquire(const AcquireRequest& request,
                                                    const std::optional<StoredLease>& at_key,
                                                    const std::optional<StoredLease>& of_id,
                                                    std::chrono::milliseconds now) noexcept {
  if (is_held(at_key, now)) {
    if (at_key->id == request.id) return GrantAgain{};
    return Refused{.free_in = at_key->expires_at - now};
  }
  if (is_held_by(request.id, of_id, now)) return IdInUse{};
  return Grant{.expires_at = now + request.ttl.length()};
}

[[nodiscard]] inline Error id_holds_another_key() {
  return {ErrorCode::InvalidArgument, "this lock id already holds another key; use a new id for each lock"};
}

/// This id has no lease to release or extend.
struct NotHeld {
  Absence why = Absence::not_found;
  /// Delete the stored lease: it belongs to this id and has expired. A lease of another id is left to the
  /// next acquire of its key, so that an unrelated request writes nothing.
  bool delete_lease = false;
};

/// Delete the lease, then wake a waiter.
struct Release {};
/// Set the lease's expiry to this time.
struct Extend {
  std::chrono::milliseconds expires_at = {};
};

using ReleaseDecision = std::variant<Release, NotHeld>;
using ExtendDecision = std::variant<Extend, NotHeld>;

/// Why `id` cannot release or extend the stored lease; empty if it can.
[[nodiscard]] inline std::optional<NotHeld> refuse_holder(const LockId& id,
                                                          const std::optional<StoredLease>& there,
                                                          std::chrono::milliseconds now) noexcept {
  if (!there) return NotHeld{.why = Absence::not_found};
  const bool expired = is_due(there->expires_at, now);
  if (there->id != id) return NotHeld{.why = expired ? Absence::not_found : Absence::other_owner};
  if (expired) return NotHeld{.why = Absence::expired, .delete_lease = true};
  return std::nullopt;
}

[[nodiscard]] inline ReleaseDecision decide_release(const ReleaseRequest& request,
                                                    const std::optional<StoredLease>& there,
                                                    std::chrono::milliseconds now) noexcept {
  if (const auto refused = refuse_holder(request.lock.id, there, now)) return *refused;
  return Release{};
}

[[nodiscard]] inline ExtendDecision decide_extend(const ExtendRequest& request,
                                                  const std::optional<StoredLease>& there,
                                                  std::chrono::milliseconds now) noexcept {
  if (const auto refused = refuse_holder(request.lock.id, there, now)) return *refused;
  return Extend{.expires_at = now + request.ttl.length()};
}

/// The outcome of a release that found no lease of its id, for an engine whose answers can be lost.
[[nodiscard]] inline Result<ReleaseOutcome> answer_absent_release(const ReleaseRequest& request,
                                                                  Absence found,
                                                                  const ReleaseEvidence& evidence,
                                                                  BootTime now) {
  // An earlier copy would have deleted the lease: one found expired was not released by it.
  if (!request.asked_before || found == Absence::expired) return found;
  switch (judge_repeated_release(request.proof, evidence, now)) {
    case RepeatedRelease::done:
      return Released{};
    case RepeatedRelease::absent:
      return found;
    case RepeatedRelease::unknown:
      break;
  }
  return release_is_unknown();
}

[[nodiscard]] inline Error fences_exhausted() {
  return {ErrorCode::Internal,
          "the fence counter is exhausted; use another key or another store for this lock"};
}

/// The fence after `last`. Internal when the counter is exhausted: then no lock may be granted.
[[nodiscard]] inline Result<Fence> next_fence(std::uint64_t last) {
  if (last >= Fence::max_issued) return fences_exhausted();
  return Fence::of(last + 1);
}

/// The warning to log after a grant, outside mutexes and transactions; empty while the fence is far from its
/// maximum.
[[nodiscard]] inline std::optional<std::string> high_fence_warning(Fence fence, const LockKey& key) {
  if (fence.value() <= Fence::warn_above) [[likely]]
    return std::nullopt;
  return "fence " + fence.to_string() + " of key hash " + key_hash(key.str()) +
         " is near the end of its counter";
}

}  // namespace holdfast::core
