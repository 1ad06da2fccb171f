#pragma once

#include <cstdint>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>

namespace holdfast {

/// Which engine a URL belongs to.
enum class EngineKind : std::uint8_t { memory, sqlite, system, redis, unknown };

inline constexpr std::string_view sqlite_scheme = "sqlite:";
inline constexpr std::string_view system_url = "system:";

[[nodiscard]] inline EngineKind engine_of(std::string_view url) noexcept {
  if (url == "memory:") return EngineKind::memory;
  if (url == system_url) return EngineKind::system;
  if (url.starts_with(sqlite_scheme)) return EngineKind::sqlite;
  if (url.starts_with("redis:") || url.starts_with("rediss:") || url.starts_with("unix:"))
    return EngineKind::redis;
  return EngineKind::unknown;
}

/// Names only the scheme: the rest of a URL we do not know may hold a password.
[[nodiscard]] inline Error unknown_url(std::string_view url) {
  const std::string known = "sqlite:PATH, sqlite:, system:, redis://HOST, rediss://HOST, unix:PATH, memory:";
  const auto colon = url.find(':');
  // Only what looks like a scheme: anything else may be a mistyped password.
  const bool has_scheme =
      colon != std::string_view::npos &&
      url.substr(0, colon).find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-") ==
          std::string_view::npos;
  return {ErrorCode::InvalidArgument,
          !has_scheme
              ? "a URL is one of " + known
              : "unknown URL scheme \"" + std::string(url.substr(0, colon + 1)) + "\"; known are " + known};
}

}  // namespace holdfast
