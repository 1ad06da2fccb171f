#pragma once

#include <holdfast/storage_types.hpp>
#include <string>

#include "tasks/owner.hpp"

namespace holdfast::tasks {

/// A task of an owner, both checked.
struct Address {
  std::string owner;
  std::string id;
  RecordKey key;

  [[nodiscard]] static Result<Address> of(std::string_view owner, std::string id, bool allow_anonymous) {
    auto checked = checked_owner(owner, allow_anonymous);
    if (!checked) return checked.error();
    auto key = RecordKey::of(stored_owner(*checked), id);
    if (!key) return key.error();
    return Address{.owner = *std::move(checked), .id = std::move(id), .key = *std::move(key)};
  }
};

}  // namespace holdfast::tasks
