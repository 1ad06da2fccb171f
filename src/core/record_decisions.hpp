#pragma once

#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/liveness.hpp"
#include "core/queue_entry.hpp"

/// Decides how each operation changes the stored record. An engine finds the record, calls a function here
/// and carries out the decision, all within one atomic step. The Lua scripts of Redis are a second
/// implementation; the same contract tests check both.
namespace holdfast::core {

/// Why a write with `token` is refused by a record that is bound to `bound_to`; empty if it is allowed. The
/// record is bound to the token of every write that is carried out. A Lua script implements the same rule;
/// the same cases test both.
[[nodiscard]] inline std::optional<FenceRefused> refuse_fence(const std::optional<FencingToken>& bound_to,
                                                              const FencingToken& token) {
  if (!bound_to) return std::nullopt;
  // Fences of different counters cannot be compared.
  if (bound_to->authority != token.authority || bound_to->lock_key != token.lock_key) {
    return FenceRefused{.why = ErrorCode::WrongLock, .given = token.fence, .bound_to = *bound_to};
  }
  if (token.fence < bound_to->fence) {
    return FenceRefused{.why = ErrorCode::StaleFence, .given = token.fence, .bound_to = *bound_to};
  }
  return std::nullopt;
}

/// A stored record, live or expired. No decision reads its data, so an engine may leave that empty.
struct RecordEntry {
  StoredRecord record;
  WallTime created_at = {};
  std::optional<WallTime> expires_at;
  /// Its state in its queue, of which `record.queue` is a part; null if it was never in one.
  std::shared_ptr<const QueueEntry> queue = nullptr;
};

/// Whether the record exists for readers and writers. Null: the key has no record.
[[nodiscard]] inline bool is_present(const RecordEntry* there, WallTime now) noexcept {
  return there != nullptr && !(there->expires_at && is_due(*there->expires_at, now));
}

// The steps that a decision may request. Any other alternative is the outcome itself.

/// Add the data and a new incarnation to this entry, and store it in place of the key's old entry. The
/// outcome is Written.
struct Insert {
  RecordEntry entry;
};
/// Replace the record's data with the request's, and its fields with these. The outcome is Written.
struct Update {
  std::uint64_t version = 0;
  std::optional<WallTime> expires_at;
  std::optional<FencingToken> bound_to;
  /// If it is in a queue, it leaves that.
  bool leaves_queue = false;
};
/// Replace the record's guard. The outcome is the record with its new guard.
struct SetGuard {
  std::optional<FencingToken> bound_to;
};
/// Delete the record. The outcome is Removed.
struct Remove {};
/// Change nothing. The outcome is the record.
struct Unchanged {};
/// Change nothing. The outcome is AlreadyThere, with the record.
struct Existing {};

using GetDecision = std::variant<Unchanged, std::nullopt_t>;
using CreateDecision = std::variant<Insert, Existing, QuotaReached>;
using PutDecision = std::variant<Insert, Update, NoRecord, VersionConflict, FenceRefused>;
using RemoveDecision = std::variant<Remove, NoRecord, VersionConflict, FenceRefused>;
using BindDecision = std::variant<SetGuard, Unchanged, NoRecord, FenceRefused>;
using RebindDecision = std::variant<SetGuard, Unchanged, NoRecord>;

/// The outcome of a decision: the alternative itself if it is an outcome, or the result of `store(step)`.
template <class Outcome, class Decision, class Store>
[[nodiscard]] Outcome carry_out(Decision decision, Store&& store) {
  return std::visit(
      [&store]<class Step>(Step& step) -> Outcome {
        if constexpr (std::is_convertible_v<Step, Outcome>) {
          return std::move(step);
        } else {
          return store(std::move(step));
        }
      },
      decision);
}

/// Whether `incarnation` names this record; an empty one names any.
[[nodiscard]] inline bool is_meant(const StoredRecord& there, const std::string& incarnation) noexcept {
  return incarnation.empty() || incarnation == there.incarnation;
}

using WriteRefusal = std::variant<FenceRefused, VersionConflict>;

/// Why a write to a present record is refused: its fence is checked first, then the version it expects. A
/// refused write does not change the guard either.
[[nodiscard]] inline std::optional<WriteRefusal> refuse_write(
    const StoredRecord& there, const std::optional<FencingToken>& fence,
    const std::optional<ExpectedVersion>& expected) {
  if (fence) {
    if (auto refusal = refuse_fence(there.bound_to, *fence)) return *std::move(refusal);
  }
  if (!expected) return std::nullopt;
  const bool replaced = !is_meant(there, expected->incarnation);
  if (!replaced && expected->version == there.version) return std::nullopt;
  return VersionConflict{.expected = expected->version, .actual = there.version, .replaced = replaced};
}

/// A refusal as an alternative of a decision.
template <class Decision, class... Refusals>
[[nodiscard]] Decision refused(std::variant<Refusals...> refusal) {
  return std::visit([](auto& why) -> Decision { return std::move(why); }, refusal);
}

[[nodiscard]] inline Insert first_version(const RecordData& data, const std::optional<FencingToken>& fence,
                                          std::string origin) {
  return {.entry = {.record = {.data = {},
                               .version = 1,
                               .incarnation = {},
                               .bound_to = fence,
                               .origin = std::move(origin)},
                    .created_at = data.created_at(),
                    .expires_at = data.expires_at()}};
}

[[nodiscard]] inline GetDecision decide_get(const RecordEntry* there, WallTime now) noexcept {
  if (!is_present(there, now)) return std::nullopt;
  return Unchanged{};
}

/// Whether decide_create needs the number of the owner's live records. Counting is expensive, so an engine
/// checks this first.
[[nodiscard]] inline bool needs_count(const CreateRecord& request, const RecordEntry* there,
                                      WallTime now) noexcept {
  return request.quota && !is_present(there, now);
}

/// `owners_records`: number of the owner's live records; ignored if needs_count is false.
[[nodiscard]] inline CreateDecision decide_create(const CreateRecord& request, const RecordEntry* there,
                                                  std::size_t owners_records, WallTime now) {
  if (is_present(there, now)) return Existing{};
  if (request.quota && owners_records >= *request.quota) return QuotaReached{owners_records};
  return first_version(request.data, request.fence, request.origin);
}

[[nodiscard]] inline PutDecision decide_put(const PutRecord& request, const RecordEntry* there,
                                            WallTime now) {
  if (!is_present(there, now)) {
    // A late writer addresses a record that no longer exists.
    if (request.expected || (request.fence && !request.fenced_may_create)) return NoRecord{};
    return first_version(request.data, request.fence, {});
  }
  if (auto refusal = refuse_write(there->record, request.fence, request.expected)) {
    return refused<PutDecision>(*std::move(refusal));
  }
  return Update{.version = there->record.version + 1,
                .expires_at = request.data.expires_at(),
                .bound_to = request.fence ? request.fence : there->record.bound_to,
                .leaves_queue = request.leaves_queue};
}

[[nodiscard]] inline RemoveDecision decide_remove(const RemoveRecord& request, const RecordEntry* there,
                                                  WallTime now) {
  if (!is_present(there, now)) return NoRecord{};
  if (auto refusal = refuse_write(there->record, request.fence, request.expected)) {
    return refused<RemoveDecision>(*std::move(refusal));
  }
  return Remove{};
}

[[nodiscard]] inline BindDecision decide_bind(const BindRecord& request, const RecordEntry* there,
                                              WallTime now) {
  if (!is_present(there, now) || !is_meant(there->record, request.incarnation)) return NoRecord{};
  if (auto refusal = refuse_fence(there->record.bound_to, request.fence)) {
    return *std::move(refusal);
  }
  if (there->record.bound_to == request.fence) return Unchanged{};
  return SetGuard{request.fence};
}

[[nodiscard]] inline RebindDecision decide_rebind(const RebindRecord& request, const RecordEntry* there,
                                                  WallTime now) {
  if (!is_present(there, now)) return NoRecord{};
  const auto& guard = there->record.bound_to;
  const auto& only = request.from_authority;
  if (only && (!guard || guard->authority != *only)) return Unchanged{};
  if (guard == request.fence) return Unchanged{};
  return SetGuard{request.fence};
}

}  // namespace holdfast::core
