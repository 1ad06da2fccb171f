#pragma once

#include <holdfast/lock_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// Parses a stored lock record. Internal if any field is missing or invalid.
[[nodiscard]] Result<LockRecord> parse_lock_record(std::string_view text);

/// A normalised user key as a JSON string, quotes included.
[[nodiscard]] std::string json_string(const LockKey& key);

/// The end of a record that has this label, without the closing brace: `,"holder":"..."`. Empty for null.
[[nodiscard]] std::string holder_field(const LockHolder* holder);
/// The label in such a text with the closing brace; empty if there is none.
[[nodiscard]] std::optional<LockHolder> holder_in(std::string_view field);

}  // namespace holdfast::redis
