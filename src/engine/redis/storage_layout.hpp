#pragma once

#include <cstdint>
#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// Which names a record has in Redis: the documented ones, shared with pmcp-tasks byte for byte.
///
///   record    <prefix>:tasks:<owner>:<task>           a hash
///   index     <prefix>:idx:<owner>                    a sorted set: tasks by creation time
///   channel   <prefix>:changed:<db>:<owner>:<task>    changes; Pub/Sub knows no databases, so it is named
///
/// An owner has no colon in it, so no two records have one name.
class StorageLayout {
 public:
  static constexpr std::size_t longest_prefix = 256;
  /// InvalidArgument for a prefix that is empty, too long, not UTF-8, or has control characters in it.
  [[nodiscard]] static Result<StorageLayout> make(std::string_view prefix, std::uint32_t db);

  [[nodiscard]] std::string record(const RecordKey& key) const { return tasks_ + key.str(); }
  /// What the names of an owner's records have before the task.
  [[nodiscard]] std::string record_prefix(std::string_view owner) const {
    return std::string(tasks_).append(owner).append(":");
  }
  [[nodiscard]] std::string index(std::string_view owner) const { return std::string(index_).append(owner); }
  [[nodiscard]] std::string channel(const RecordKey& key) const { return changed_ + key.str(); }

  /// Patterns, for ACLs, that match every name of a record, and the channel of every record in every
  /// database.
  [[nodiscard]] const std::string& pattern() const noexcept { return pattern_; }
  [[nodiscard]] const std::string& channel_pattern() const noexcept { return channel_pattern_; }
  /// A SCAN pattern that matches every index, and others.
  [[nodiscard]] const std::string& index_pattern() const noexcept { return index_pattern_; }
  /// Whose index is named so; nothing if nobody's is.
  [[nodiscard]] std::optional<std::string_view> owner_of_index(std::string_view name) const;

 private:
  StorageLayout() = default;
  std::string tasks_, index_, changed_;  ///< up to the owner
  std::string index_pattern_, pattern_, channel_pattern_;
};

}  // namespace holdfast::redis
