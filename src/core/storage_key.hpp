#pragma once

#include <cstddef>
#include <holdfast/result.hpp>
#include <string>
#include <string_view>

namespace holdfast::core {

/// The name of a key in a store that limits names to `limit` bytes, `reserve` of which are kept for derived
/// names. The name is `prefix:key`; if that is too long, the prefix and a hash of it. The key is
/// NFC-normalised, the prefix is not; its trailing colons are dropped. InvalidArgument if the key is empty or
/// not UTF-8, or if the limit leaves no room.
[[nodiscard]] Result<std::string> make_storage_key(std::string_view prefix, std::string_view key,
                                                   std::size_t limit, std::size_t reserve);

/// The same for a key that is already in normal form, such as a LockKey.
[[nodiscard]] Result<std::string> storage_key_of_normalised(std::string_view prefix, std::string_view key,
                                                            std::size_t limit, std::size_t reserve);

/// The key of the lock that claims of a task have, for the key of its record: `task:` and that, or a digest
/// if it would be too long. Fails as make_storage_key.
[[nodiscard]] Result<std::string> task_lock_key(std::string_view record_key);

}  // namespace holdfast::core
