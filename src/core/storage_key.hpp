#pragma once

#include <cstddef>
#include <holdfast/result.hpp>
#include <string>
#include <string_view>

namespace holdfast::core {

/// The name a key has in a store that limits names to `limit` bytes, `reserve` of them kept for names
/// derived from it: `prefix:key`, or a hash of that behind the prefix where it would be too long. The key
/// is NFC-normalised, the prefix is not; its trailing colons are dropped. InvalidArgument if the key is
/// empty or not UTF-8, or if the limit leaves no room.
[[nodiscard]] Result<std::string> make_storage_key(std::string_view prefix, std::string_view key,
                                                   std::size_t limit, std::size_t reserve);

/// The same for a key that is in normal form already, as a LockKey is.
[[nodiscard]] Result<std::string> storage_key_of_normalised(std::string_view prefix, std::string_view key,
                                                            std::size_t limit, std::size_t reserve);

}  // namespace holdfast::core
