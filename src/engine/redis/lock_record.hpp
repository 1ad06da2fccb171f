#pragma once

#include <holdfast/lock_types.hpp>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// A lock record as it is stored. Internal if it is not one, to the last field.
[[nodiscard]] Result<LockRecord> parse_lock_record(std::string_view text);

/// A normalised user key as a JSON string, quotes included.
[[nodiscard]] std::string json_string(const LockKey& key);

}  // namespace holdfast::redis
