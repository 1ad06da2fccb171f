#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/utf8.hpp"

namespace holdfast::core {

/// The owner whose records a list's prefix names. InvalidArgument if it is not a name with a colon behind it.
[[nodiscard]] inline Result<std::string> listed_owner(std::string_view prefix) {
  const auto key = RecordKey::parse(prefix);
  if (!key) {
    return Error(ErrorCode::InvalidArgument, "a list's prefix is not an owner's name and a colon",
                 key.error().message());
  }
  if (!key->task().empty()) {
    return Error(ErrorCode::InvalidArgument,
                 "a list's prefix ends with the colon behind the owner's name, which itself contains none; "
                 "there is more behind this one's");
  }
  return std::string(key->owner());
}

/// Why this cannot be the origin of a record, if it cannot.
[[nodiscard]] inline std::optional<Error> refuse_origin(std::string_view origin) {
  constexpr std::size_t max_bytes = 256;
  if (origin.size() > max_bytes) {
    return Error(ErrorCode::InvalidArgument, "a record's origin is " + std::to_string(origin.size()) +
                                                 " bytes long; at most " + std::to_string(max_bytes) +
                                                 " fit");
  }
  if (!is_utf8(origin)) return Error(ErrorCode::InvalidArgument, "a record's origin is not valid UTF-8");
  return std::nullopt;
}

}  // namespace holdfast::core
