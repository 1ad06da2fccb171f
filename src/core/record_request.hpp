#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/utf8.hpp"

namespace holdfast::core {

/// The owner that a list's prefix names. InvalidArgument if the prefix is not a name followed by a colon.
[[nodiscard]] inline Result<std::string> listed_owner(std::string_view prefix) {
  const auto key = RecordKey::parse(prefix);
  if (!key) {
    return Error(ErrorCode::InvalidArgument, "invalid list prefix: must be an owner's name and a colon",
                 key.error().message());
  }
  if (!key->task().empty()) {
    return Error(ErrorCode::InvalidArgument,
                 "invalid list prefix: must end with the colon after the owner's name");
  }
  return std::string(key->owner());
}

/// The cursor of a page of owners that ends with this one. Not the bare name: an owner's name may be empty,
/// and an empty cursor means the first page.
[[nodiscard]] inline std::string cursor_behind(std::string_view owner) {
  return '>' + std::string(owner);
}

/// The owner after which a page of owners begins; empty for the first page. InvalidArgument if the cursor is
/// not one that a page ended with.
[[nodiscard]] inline Result<std::optional<std::string>> owner_before(std::string_view cursor) {
  if (cursor.empty()) return std::optional<std::string>();
  if (!cursor.starts_with('>') || !RecordKey::of(cursor.substr(1), {})) {
    return Error(ErrorCode::InvalidArgument,
                 "the cursor is not from this list of owners; start without a cursor");
  }
  return std::optional(std::string(cursor.substr(1)));
}

/// Why this is not a valid origin of a record; empty if it is.
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
