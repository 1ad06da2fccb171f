#pragma once

#include <cstdint>
#include <holdfast/lock_types.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// Which names a lock has in Redis: the documented ones, shared with SyncGuard byte for byte.
///
///   lock key       <prefix>:<user key>                   the record
///   index key      <prefix>:id:<lock id>                 the lock key; or empty: a tombstone
///   fence counter  <prefix>:fence:<prefix>:<user key>    for ever
///   authority      <prefix>:fence:<prefix>:              whose counters these are; for ever
///   channel        <prefix>:wake:<db>:<lock key>         releases; Pub/Sub knows no databases, so it is
///   named
///
/// A name that would be too long ends in a hash instead.
class Layout {
 public:
  /// InvalidArgument for a prefix under which a lock key could be mistaken for a fence counter, that leaves
  /// no room for keys, or that is not UTF-8. Colons at its end are dropped.
  [[nodiscard]] static Result<Layout> make(std::string_view prefix, std::uint32_t db);

  /// InvalidArgument for the user keys that would land on an index key or on a fence counter; only those.
  [[nodiscard]] Result<std::string> lock_key(const LockKey& key) const;
  [[nodiscard]] Result<std::string> fence_key(std::string_view lock_key) const;
  [[nodiscard]] std::string index_key(const LockId& id) const;
  [[nodiscard]] std::string channel(std::string_view lock_key) const;

  /// Without colons at its end.
  [[nodiscard]] std::string_view prefix() const noexcept {
    return std::string_view(head_).substr(0, head_.empty() ? 0 : head_.size() - 1);
  }
  /// What every index key, and every channel, has before the lock id, and before the lock key.
  [[nodiscard]] const std::string& index_prefix() const noexcept { return index_prefix_; }
  [[nodiscard]] const std::string& channel_prefix() const noexcept { return channel_prefix_; }
  [[nodiscard]] const std::string& authority_key() const noexcept { return authority_key_; }

  /// A pattern, for SCAN and ACLs, that matches every name of a lock, and others.
  [[nodiscard]] const std::string& pattern() const noexcept { return pattern_; }
  /// One that matches the channel of every lock, in every database.
  [[nodiscard]] const std::string& channel_pattern() const noexcept { return channel_pattern_; }
  /// What a lock key has after the prefix: the user key, or its hash. Nothing if no lock key is named so.
  [[nodiscard]] std::optional<std::string_view> after_prefix(std::string_view name) const;
  /// The name of which `after_prefix` answered this.
  [[nodiscard]] std::string named(std::string_view after_prefix) const;

 private:
  Layout() = default;
  [[nodiscard]] bool is_reserved(std::string_view user_key) const noexcept;

  std::string head_;        // the prefix with its colon; empty if the prefix is
  std::string fence_head_;  // the part of a user key that would put its lock key among the fence counters
  std::string index_prefix_, channel_prefix_, authority_key_, pattern_, channel_pattern_;
};

}  // namespace holdfast::redis
