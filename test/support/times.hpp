#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/storage_backend.hpp>

namespace holdfast::test {

// Times in tests are numbers: milliseconds since the epoch.

[[nodiscard]] constexpr std::int64_t to_ms(WallTime time) noexcept {
  return time.time_since_epoch().count();
}
[[nodiscard]] constexpr WallTime from_ms(std::int64_t ms) noexcept {
  return WallTime(std::chrono::milliseconds(ms));
}
[[nodiscard]] inline std::int64_t now_ms(const StorageBackend& storage) {
  return to_ms(storage.now());
}

}  // namespace holdfast::test
