#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/wire/command.hpp"

namespace holdfast::redis {

/// A Lua script and its SHA-1, under which a server caches it: EVALSHA sends 40 characters in place of the
/// text.
struct Script {
  /// The text must outlive the script; it is embedded in the library.
  explicit Script(std::string_view lua);

  std::string_view text;
  std::string sha1;
};

/// How a script is named to the server: by its SHA-1, or, after NOSCRIPT, by its text.
enum class By : std::uint8_t { sha, text };

/// The beginning of a script's call; add this many keys, then this many arguments.
[[nodiscard]] Command call_script(const Script& script, By by, std::size_t keys, std::size_t arguments);

/// The keys that a script asks for, parts/declared.lua: it has found their names, and its call does not
/// declare them. Empty for every other reply.
[[nodiscard]] std::vector<std::string> undeclared_keys(const redisReply& reply);

/// The call of a script with more keys, behind its own.
[[nodiscard]] RoutedCommand with_keys(const RoutedCommand& call, std::span<const std::string> keys);

}  // namespace holdfast::redis
