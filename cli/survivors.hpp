#pragma once

#include <cstdint>
#include <string>

namespace holdfast::cli {

/// Processes of a command that were to be ended and may live on.
struct Survivors {
  std::int32_t count = 0;   ///< those that may not be signalled
  std::int32_t hidden = 0;  ///< those of them that /proc hides: there may be more
  /// The processes could not be listed at all, so that only the command's own process group was signalled.
  bool unlisted = false;

  [[nodiscard]] bool any() const noexcept { return count > 0 || unlisted; }
};

/// What cannot be seen or signalled, why, and what becomes of the lock. Not for none.
[[nodiscard]] std::string describe(const Survivors& survivors);

}  // namespace holdfast::cli
