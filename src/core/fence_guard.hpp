#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <variant>

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

}  // namespace holdfast::core
