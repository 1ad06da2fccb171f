#pragma once

#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::tasks {

/// The owner of tasks that name no owner.
inline constexpr std::string_view anonymous_owner = "local";

/// Empty means anonymous. AnonymousOwner if that is not allowed.
[[nodiscard]] Result<std::string> checked_owner(std::string_view owner, bool allow_anonymous);

/// An owner's name in a record's key. A colon would end the name there: owner `a` with task `b:c` would have
/// the key of owner `a:b` with task `c`. So in owners that contain a colon, %3A or %25, a colon is written
/// %3A and a % is written %25. All other owners are unchanged, so other software finds their records. Two
/// owners never share a name: encoded ones contain %3A or %25, the others do not.
[[nodiscard]] std::string stored_owner(std::string_view owner);
/// The name under which registers are stored. It is no owner's name: in an encoded name every % begins %3A or
/// %25.
inline constexpr std::string_view owner_of_registers = "%register%25";
/// What the names begin with under which the tasks of queues are stored. For the same reason none is an
/// owner's name.
inline constexpr std::string_view owners_of_queues = "%queue%25";
/// The name under which the tasks of a queue are stored. InvalidArgument unless the queue's name is 1 to 512
/// bytes of UTF-8.
[[nodiscard]] Result<std::string> owner_of_queue(std::string_view queue);
/// The queue with this stored name; empty if it is not that of a queue.
[[nodiscard]] std::optional<std::string> queue_stored_as(std::string_view stored);
/// The owner with this name; empty if it is not an owner's name, such as that of registers.
[[nodiscard]] std::optional<std::string> owner_stored_as(std::string_view stored);

/// The lock key of a task: `task:` and its record's key; or a digest of that if it would be too long.
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
  /// A task under a reserved name, which is also the owner in its record.
  [[nodiscard]] static Result<Address> reserved(const std::string& stored, std::string id) {
    auto key = RecordKey::of(stored, id);
    if (!key) return key.error();
    return Address{.owner = stored, .id = std::move(id), .key = *std::move(key)};
  }
};

}  // namespace holdfast::tasks
