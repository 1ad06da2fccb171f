#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <variant>

namespace holdfast::core {

/// Whether a write that carries `token` must not touch a record guarded by `guarded_by`. Nothing: it passes,
/// and if it goes through, the token is the record's guard from then on. Its twin in Lua is tested against
/// the same cases.
[[nodiscard]] inline std::optional<std::variant<StaleFence, WrongLock>> refuse_fence(
    const std::optional<FencingToken>& guarded_by, const FencingToken& token) {
  if (!guarded_by) return std::nullopt;
  // Another counter's numbers say nothing about who came first: they are not compared.
  if (guarded_by->authority != token.authority || guarded_by->lock_key != token.lock_key) {
    return WrongLock{*guarded_by};
  }
  if (token.fence < guarded_by->fence) return StaleFence{.given = token.fence, .highest = guarded_by->fence};
  return std::nullopt;
}

/// Whether the record that is there is the one of this incarnation; empty: any.
[[nodiscard]] inline bool is_meant(const StoredRecord& there, const std::string& incarnation) noexcept {
  return incarnation.empty() || incarnation == there.incarnation;
}

/// Whether a rebind is to leave the record as it is: it is meant for the locks of another authority.
[[nodiscard]] inline bool is_left_alone(const std::optional<FencingToken>& guarded_by,
                                        const std::optional<std::string>& from_authority) {
  return from_authority && (!guarded_by || guarded_by->authority != *from_authority);
}

using WriteRefusal = std::variant<StaleFence, WrongLock, VersionConflict>;

/// Whether a write to the record that is there must be refused: by its fence, then by what it expects. A
/// refused one changes nothing, the fence neither. Of the record only version, incarnation and guard are
/// looked at.
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

/// A refusal as the outcome of whichever operation met it.
template <class Outcome, class... Refusals>
[[nodiscard]] Outcome outcome_of(std::variant<Refusals...> refusal) {
  return std::visit([](auto& why) -> Outcome { return std::move(why); }, refusal);
}

}  // namespace holdfast::core
