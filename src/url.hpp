#pragma once

#include <cstdint>
#include <holdfast/error.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/percent.hpp"

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

/// A URL without its label, and the label.
struct LabelledUrl {
  std::string_view url;
  std::string holder = {};  ///< as LockOptions::holder; empty if there is none
};

/// Takes `?holder=LABEL` off the end of a URL. Leaves the URLs of Redis as they are: their parser knows all
/// their parameters. Those of the other engines have no other parameter, and the name of a file may contain a
/// question mark.
[[nodiscard]] inline Result<LabelledUrl> split_holder(std::string_view url) {
  constexpr std::string_view parameter = "?holder=";
  const auto at = url.rfind(parameter);
  if (at == std::string_view::npos || engine_of(url) == EngineKind::redis) return LabelledUrl{url};
  auto holder = core::percent_decoded(url.substr(at + parameter.size()));
  if (!holder) {
    return Error(ErrorCode::InvalidArgument,
                 "cannot use this URL: holder: % must be followed by two hex digits; write a plain % as %25");
  }
  if (holder->empty()) {
    return Error(ErrorCode::InvalidArgument, "cannot use this URL: holder is empty; write none for no label");
  }
  return LabelledUrl{url.substr(0, at), *std::move(holder)};
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
  for (const std::string_view whole : {std::string_view("memory:"), system_url}) {
    if (!url.starts_with(whole)) continue;
    return {ErrorCode::InvalidArgument,
            "cannot use this URL: nothing but ?holder=LABEL and the limits of tasks "
            "and queues may follow " +
                std::string(whole)};
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
