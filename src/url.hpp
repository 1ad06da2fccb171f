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
  for (const std::string_view scheme : {"redis:", "rediss:", "redis+sentinel:", "rediss+sentinel:",
                                        "redis+cluster:", "rediss+cluster:", "unix:"}) {
    if (url.starts_with(scheme)) return EngineKind::redis;
  }
  return EngineKind::unknown;
}

/// The message repeats only a scheme or a path: anything else may contain a password.
[[nodiscard]] inline Error unknown_url(std::string_view url) {
  const std::string known =
      "; use sqlite:PATH, sqlite:, system:, redis://HOST, rediss://HOST, "
      "redis+sentinel://HOST,HOST/SERVICE, redis+cluster://HOST,HOST, unix:PATH or memory:";
  if ((url.starts_with('/') || url.starts_with("./") || url.starts_with("../")) &&
      url.find('@') == std::string_view::npos) {
    return {ErrorCode::InvalidArgument,
            "a URL needs a scheme; did you mean sqlite:" + std::string(url) + "?"};
  }
  const auto colon = url.find(':');
  const bool has_scheme =
      colon != std::string_view::npos &&
      url.substr(0, colon).find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-") ==
          std::string_view::npos;
  if (!has_scheme) return {ErrorCode::InvalidArgument, "invalid URL" + known};
  return {ErrorCode::InvalidArgument,
          "unknown URL scheme \"" + std::string(url.substr(0, colon + 1)) + "\"" + known};
}

}  // namespace holdfast
