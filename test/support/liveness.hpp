#pragma once

#include <cstdint>

namespace holdfast::test {

/// The reference for parts/liveness.lua: whether a record counts as live that is present although the store
/// should have dropped it at its expiry (PERSISTed by hand, restored from a backup).
[[nodiscard]] constexpr bool is_live(std::int64_t expires_at_ms, std::int64_t now_ms) noexcept {
  constexpr std::int64_t tolerance_ms = 1000;
  return expires_at_ms > now_ms - tolerance_ms;
}

}  // namespace holdfast::test
