#pragma once

#include <holdfast/lock_types.hpp>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// Parses a stored lock record. Internal if any field is missing or invalid.
[[nodiscard]] Result<LockRecord> parse_lock_record(std::string_view text);

/// A normalised user key as a JSON string, quotes included.
[[nodiscard]] std::string json_string(const LockKey& key);

}  // namespace holdfast::redis
