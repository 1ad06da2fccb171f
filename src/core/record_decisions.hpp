#pragma once

#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/liveness.hpp"

/// What the operations on records do with what is stored. An engine finds the record, asks here, and carries
/// the decision out, all within one atomic step; the Lua scripts of Redis are a second implementation, held
/// to the same contract tests.
namespace holdfast::core {

/// Why a write that carries `token` is refused by a record guarded by `guarded_by`; nothing if it may pass.
/// The token of a write that is carried out is the record's guard from then on. A Lua script implements the
/// same rule; the same cases test both.
[[nodiscard]] inline std::optional<std::variant<StaleFence, WrongLock>> refuse_fence(
    const std::optional<FencingToken>& guarded_by, const FencingToken& token) {
  if (!guarded_by) return std::nullopt;
  // Fences of different counters have no order.
  if (guarded_by->authority != token.authority || guarded_by->lock_key != token.lock_key) {
    return WrongLock{*guarded_by};
  }
  if (token.fence < guarded_by->fence) return StaleFence{.given = token.fence, .highest = guarded_by->fence};
  return std::nullopt;
}

/// A record as an engine stores it, live or expired. No decision looks at its data, which an engine may leave
/// empty.
struct RecordEntry {
  StoredRecord record;
  std::int64_t created_at_ms = 0;
  std::optional<std::int64_t> expires_at_ms;
};

/// Whether the record exists for readers and writers. Null: nothing is stored at the key.
[[nodiscard]] inline bool is_present(const RecordEntry* there, std::int64_t now_ms) noexcept {
  return there != nullptr && !(there->expires_at_ms && is_due(*there->expires_at_ms, now_ms));
}

// The steps that a decision may ask for. What is none of these is the outcome itself.

/// Store this entry in place of what the key has, after adding the data and a new incarnation. The outcome is
/// Written.
struct Insert {
  RecordEntry entry;
};
/// Replace the record's data with the request's, and these. The outcome is Written.
struct Update {
  std::uint64_t version = 0;
  std::optional<std::int64_t> expires_at_ms;
  std::optional<FencingToken> guarded_by;
};
/// Replace the record's guard. The outcome is the record with its new guard.
struct SetGuard {
  std::optional<FencingToken> guarded_by;
};
/// Delete the record. The outcome is Removed.
struct Remove {};
/// Change nothing. The outcome is the record.
struct Unchanged {};
/// Change nothing. The outcome is AlreadyThere, with the record.
struct Existing {};

using GetDecision = std::variant<Unchanged, std::nullopt_t>;
using CreateDecision = std::variant<Insert, Existing, QuotaReached>;
using PutDecision = std::variant<Insert, Update, NoRecord, VersionConflict, StaleFence, WrongLock>;
using RemoveDecision = std::variant<Remove, NoRecord, VersionConflict, StaleFence, WrongLock>;
using GuardDecision = std::variant<SetGuard, Unchanged, NoRecord, StaleFence, WrongLock>;
using RebindDecision = std::variant<SetGuard, Unchanged, NoRecord>;

/// The outcome of a decision: what is an outcome already, or what `store(step)` returns for a step.
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

/// Whether `incarnation` means this record; empty: it means any.
[[nodiscard]] inline bool is_meant(const StoredRecord& there, const std::string& incarnation) noexcept {
  return incarnation.empty() || incarnation == there.incarnation;
}

using WriteRefusal = std::variant<StaleFence, WrongLock, VersionConflict>;

/// Why a write to a present record is refused, by its fence first, then by the version it expects. A refused
/// write leaves the guard as it is, too.
[[nodiscard]] inline std::optional<WriteRefusal> refuse_write(
    const StoredRecord& there, const std::optional<FencingToken>& fence,
    const std::optional<ExpectedVersion>& expected) {
  if (fence) {
    if (auto refusal = refuse_fence(there.guarded_by, *fence)) {
      return std::visit([](auto& why) -> WriteRefusal { return std::move(why); }, *refusal);
    }
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
                               .guarded_by = fence,
                               .origin = std::move(origin)},
                    .created_at_ms = data.created_at_ms(),
                    .expires_at_ms = data.expires_at_ms()}};
}

[[nodiscard]] inline GetDecision decide_get(const RecordEntry* there, std::int64_t now_ms) noexcept {
  if (!is_present(there, now_ms)) return std::nullopt;
  return Unchanged{};
}

/// Whether decide_create depends on how many live records the owner has. Counting is work for an engine, so
/// it asks first.
[[nodiscard]] inline bool needs_count(const CreateRecord& request, const RecordEntry* there,
                                      std::int64_t now_ms) noexcept {
  return request.quota && !is_present(there, now_ms);
}

/// `owners_records`: the owner's live records; any number if needs_count says that it does not matter.
[[nodiscard]] inline CreateDecision decide_create(const CreateRecord& request, const RecordEntry* there,
                                                  std::size_t owners_records, std::int64_t now_ms) {
  if (is_present(there, now_ms)) return Existing{};
  if (request.quota && owners_records >= *request.quota) return QuotaReached{owners_records};
  return first_version(request.data, request.fence, request.origin);
}

[[nodiscard]] inline PutDecision decide_put(const PutRecord& request, const RecordEntry* there,
                                            std::int64_t now_ms) {
  if (!is_present(there, now_ms)) {
    // A late writer means a record that is gone.
    if (request.expected || (request.fence && !request.fenced_may_create)) return NoRecord{};
    return first_version(request.data, request.fence, {});
  }
  if (auto refusal = refuse_write(there->record, request.fence, request.expected)) {
    return refused<PutDecision>(*std::move(refusal));
  }
  return Update{.version = there->record.version + 1,
                .expires_at_ms = request.data.expires_at_ms(),
                .guarded_by = request.fence ? request.fence : there->record.guarded_by};
}

[[nodiscard]] inline RemoveDecision decide_remove(const RemoveRecord& request, const RecordEntry* there,
                                                  std::int64_t now_ms) {
  if (!is_present(there, now_ms)) return NoRecord{};
  if (auto refusal = refuse_write(there->record, request.fence, request.expected)) {
    return refused<RemoveDecision>(*std::move(refusal));
  }
  return Remove{};
}

[[nodiscard]] inline GuardDecision decide_guard(const GuardRecord& request, const RecordEntry* there,
                                                std::int64_t now_ms) {
  if (!is_present(there, now_ms) || !is_meant(there->record, request.incarnation)) return NoRecord{};
  if (auto refusal = refuse_fence(there->record.guarded_by, request.fence)) {
    return refused<GuardDecision>(*std::move(refusal));
  }
  if (there->record.guarded_by == request.fence) return Unchanged{};
  return SetGuard{request.fence};
}

[[nodiscard]] inline RebindDecision decide_rebind(const RebindRecord& request, const RecordEntry* there,
                                                  std::int64_t now_ms) {
  if (!is_present(there, now_ms)) return NoRecord{};
  const auto& guard = there->record.guarded_by;
  const auto& only = request.from_authority;
  if (only && (!guard || guard->authority != *only)) return Unchanged{};
  if (guard == request.fence) return Unchanged{};
  return SetGuard{request.fence};
}

}  // namespace holdfast::core
