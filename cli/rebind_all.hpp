#pragma once

#include <optional>
#include <string>

#include "context.hpp"

namespace holdfast::cli {

/// What `task rebind --from-authority` does without an ID.
struct RebindAll {
  /// The authority that is gone.
  std::string from;
  /// The one that counts the fences of the same locks now; without it, that of this store.
  std::optional<std::string> to;
  /// Of one owner, or else of all, and of registers.
  std::optional<std::string> owner;
  bool dry_run = false;
  bool yes = false;  ///< do not ask
};

/// The exit code.
int rebind_all(const Context& context, const RebindAll& what);

/// The authority to bind to. Throws UsageError if `from` is not gone: it is this store's own, or the same.
[[nodiscard]] std::string new_authority(const std::string& from, const std::optional<std::string>& to,
                                        const std::string& current);

}  // namespace holdfast::cli
