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

/// Why a write that carries `token` is refused by a record guarded by `bound_to`; nothing if it may pass.
/// The token of a write that is carried out is the record's guard from then on. A Lua script implements the
/// same rule; the same cases test both.
[[nodiscard]] inline std::optional<FenceRefused> refuse_fence(const std::optional<FencingToken>& bound_to,
                                                              const FencingToken& token) {
  if (!bound_to) return std::nullopt;
  // Fences of different counters have no order.
  if (bound_to->authority != token.authority || bound_to->lock_key != token.lock_key) {
    return FenceRefused{.why = ErrorCode::WrongLock, .given = token.fence, .bound_to = *bound_to};
  }
  if (token.fence < bound_to->fence) {
    return FenceRefused{.why = ErrorCode::StaleFence, .given = token.fence, .bound_to = *bound_to};
  }
  return std::nullopt;
}

/// A record as an engine stores it, live or expired. No decision looks at its data, which an engine may leave
/// empty.
struct RecordEntry {
  StoredRecord record;
  WallTime created_at = {};
  std::optional<WallTime> expires_at;
};

/// Whether the record exists for readers and writers. Null: nothing is stored at the key.
[[nodiscard]] inline bool is_present(const RecordEntry* there, WallTime now) noexcept {
  return there != nullptr && !(there->expires_at && is_due(*there->expires_at, now));
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
  std::optional<WallTime> expires_at;
  std::optional<FencingToken> bound_to;
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

using WriteRefusal = std::variant<FenceRefused, VersionConflict>;

/// Why a write to a present record is refused, by its fence first, then by the version it expects. A refused
/// write leaves the guard as it is, too.
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

/// Whether decide_create depends on how many live records the owner has. Counting is work for an engine, so
/// it asks first.
[[nodiscard]] inline bool needs_count(const CreateRecord& request, const RecordEntry* there,
                                      WallTime now) noexcept {
  return request.quota && !is_present(there, now);
}

/// `owners_records`: the owner's live records; any number if needs_count says that it does not matter.
[[nodiscard]] inline CreateDecision decide_create(const CreateRecord& request, const RecordEntry* there,
                                                  std::size_t owners_records, WallTime now) {
  if (is_present(there, now)) return Existing{};
  if (request.quota && owners_records >= *request.quota) return QuotaReached{owners_records};
  return first_version(request.data, request.fence, request.origin);
}

[[nodiscard]] inline PutDecision decide_put(const PutRecord& request, const RecordEntry* there,
                                            WallTime now) {
  if (!is_present(there, now)) {
    // A late writer means a record that is gone.
    if (request.expected || (request.fence && !request.fenced_may_create)) return NoRecord{};
    return first_version(request.data, request.fence, {});
  }
  if (auto refusal = refuse_write(there->record, request.fence, request.expected)) {
    return refused<PutDecision>(*std::move(refusal));
  }
  return Update{.version = there->record.version + 1,
                .expires_at = request.data.expires_at(),
                .bound_to = request.fence ? request.fence : there->record.bound_to};
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
