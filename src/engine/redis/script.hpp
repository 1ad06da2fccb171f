#pragma once

#include <string>
#include <string_view>

namespace holdfast::redis {

/// A Lua script and the name under which a server keeps it: EVALSHA sends 40 characters in place of the text.
struct Script {
  /// The text must outlive the script; it is one of those embedded in the library.
  explicit Script(std::string_view lua);

  std::string_view text;
  std::string sha1;
};

}  // namespace holdfast::redis
