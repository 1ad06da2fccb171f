#pragma once

#include <holdfast/change_feed.hpp>
#include <optional>
#include <string_view>

#include "engine/redis/layout.hpp"

namespace holdfast::redis {

/// The meaning of a message on a channel of a store. Its payload is `1`: released, or changed; `broken`; or
/// `stale FENCE HIGHEST`: a write was refused. Another payload, of a later version, counts as a change.
/// The key of a name that ends in a hash is that hash, which no viewer looks for.
/// Empty: it is not a channel of this store, or of another database.
[[nodiscard]] std::optional<Change> lock_change(const Layout& names, std::string_view channel,
                                                std::string_view payload);
[[nodiscard]] std::optional<Change> record_change(const StorageLayout& names, std::string_view channel,
                                                  std::string_view payload);

}  // namespace holdfast::redis
