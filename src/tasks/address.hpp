#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::tasks {

/// Nobody in particular.
inline constexpr std::string_view anonymous_owner = "local";

/// Empty means anonymous. AnonymousOwner if that is not allowed.
[[nodiscard]] Result<std::string> checked_owner(std::string_view owner, bool allow_anonymous);

/// How an owner is called in a record's key. A colon would end the name there, and owner `a` with task `b:c`
/// would be owner `a:b` with task `c`; so it is written %3A, and % is %25, in owners that contain a colon or
/// one of these two. All others stay as they are, and where other software looks for them. Two owners never
/// have one name: encoded ones contain %3A or %25, the others do not.
[[nodiscard]] std::string stored_owner(std::string_view owner);
/// Under which registers are stored: no owner's name, for one that contains %25 has no other %.
inline constexpr std::string_view owner_of_registers = "%register%25";
/// Whose name that is; nothing if it is no owner's, as that of registers.
[[nodiscard]] std::optional<std::string> owner_stored_as(std::string_view stored);

/// The lock of a task: `task:` and its record's key; or a digest of that where it would be too long.
[[nodiscard]] std::string lock_key_of(const RecordKey& key);

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
