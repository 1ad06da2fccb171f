#pragma once

#include <holdfast/storage_backend.hpp>
#include <string>
#include <string_view>

namespace holdfast::tasks {

/// A place in an owner's list, as text for callers: printable, opaque, and of that owner only.
[[nodiscard]] Result<std::string> cursor_at(const ListPosition& position, std::string_view stored_owner);

/// BadCursor if it is not one that `cursor_at` made for this owner.
[[nodiscard]] Result<ListPosition> position_of(std::string_view cursor, std::string_view stored_owner);

}  // namespace holdfast::tasks
