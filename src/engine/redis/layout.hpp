#pragma once

#include <array>
#include <cstdint>
#include <holdfast/lock_types.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/storage_types.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/conn/slot.hpp"

namespace holdfast::redis {

/// The names of a lock in Redis: the documented ones, shared with SyncGuard byte for byte.
///
///   lock key       <prefix>:<user key>                   the record
///   index key      <prefix>:id:<lock id>                 the lock key; or empty: a tombstone
///   fence counter  <prefix>:fence:<prefix>:<user key>    forever
///   authority      <prefix>:fence:<prefix>:              id of these counters; forever
///   channel        <prefix>:wake:<db>:<lock key>         releases; Pub/Sub knows no databases, so it is
///   named
///
/// A name that would be too long ends in a hash instead. The native layout uses the lock key, the index key
/// (for hints), the authority's (for its marker) and the channel: see LockLayout.
class Layout {
 public:
  /// InvalidArgument for a prefix under which a lock key could be mistaken for a fence counter, that leaves
  /// no room for keys, or that is not UTF-8. Trailing colons are dropped.
  [[nodiscard]] static Result<Layout> make(std::string_view prefix, std::uint32_t db,
                                           Channels channels = Channels::global);

  /// InvalidArgument only for user keys whose name would be that of an index key or a fence counter.
  [[nodiscard]] Result<std::string> lock_key(const LockKey& key) const;
  [[nodiscard]] Result<std::string> fence_key(std::string_view lock_key) const;
  /// InvalidArgument under a prefix of more than 951 bytes: there no lock can be acquired, as with SyncGuard.
  [[nodiscard]] Result<std::string> index_key(const LockId& id) const;
  /// Whether index keys end in a hash: under a prefix of more than 948 bytes.
  [[nodiscard]] bool hashes_ids() const noexcept { return hashes_ids_; }
  /// A sharded channel has the name of its lock key, and so its slot, whatever that name contains.
  [[nodiscard]] std::string channel(std::string_view lock_key) const;
  [[nodiscard]] Channels channels() const noexcept { return channels_; }

  /// Without trailing colons.
  [[nodiscard]] std::string_view prefix() const noexcept {
    return std::string_view(head_).substr(0, head_.empty() ? 0 : head_.size() - 1);
  }
  /// How many bytes of a lock key come before the user key, or its hash.
  [[nodiscard]] std::size_t prefix_bytes() const noexcept { return head_.size(); }
  /// The part of every index key before the lock id, unless it `hashes_ids`, and of every channel before the
  /// lock key.
  [[nodiscard]] const std::string& index_prefix() const noexcept { return index_prefix_; }
  [[nodiscard]] const std::string& channel_prefix() const noexcept { return channel_prefix_; }
  [[nodiscard]] const std::string& authority_key() const noexcept { return authority_key_; }

  /// A pattern, for SCAN and ACLs, that matches every name of a lock, and others.
  [[nodiscard]] const std::string& pattern() const noexcept { return pattern_; }
  /// One that matches the channel of every lock, in every database.
  [[nodiscard]] const std::string& channel_pattern() const noexcept { return channel_pattern_; }
  /// The part of a lock key after the prefix: the user key, or its hash. Empty if this is not the name of a
  /// lock key.
  [[nodiscard]] std::optional<std::string_view> after_prefix(std::string_view name) const;
  /// The name for which `after_prefix` returned this.
  [[nodiscard]] std::string named(std::string_view after_prefix) const;

 private:
  Layout() = default;
  [[nodiscard]] bool is_reserved(std::string_view user_key) const noexcept;

  std::string head_;        // the prefix with its colon; empty if the prefix is
  std::string fence_head_;  // the part of a user key that would put its lock key among the fence counters
  std::string index_prefix_, channel_prefix_, authority_key_, pattern_, channel_pattern_;
  bool hashes_ids_ = false;
  Channels channels_ = Channels::global;
};

/// The names of a record in Redis: the documented ones, shared with pmcp-tasks byte for byte.
///
///   record    <prefix>:tasks:<owner>:<task>           a hash
///   index     <prefix>:idx:<owner>                    a sorted set: tasks by creation time
///   channel   <prefix>:changed:<db>:<owner>:<task>    changes; Pub/Sub knows no databases, so it is named
///   queue     <prefix>:queue:<kind>:<owner>           see QueueKeys
///   claims    <prefix>:queue:claimed:<owner>:<process>:<slot>   what this slot of a process claimed last
///   channel   <prefix>:changed:work:<db>:<owner>:<process>      wakes a process that waits for this queue
///
/// In the native layout all keys of an owner are in one slot of a cluster. The tag is a hash of the owner,
/// whose own name may be empty or contain braces:
///
///   record    <prefix>:{<tag>}:task:<owner>:<task>
///   index     <prefix>:{<tag>}:idx:<owner>
///   marker    <prefix>:layout                         "native": no store of the documented layout opens it
///   queue     <prefix>:{<tag>}:queue:…                as above; the channel of a process too, if it is
///   sharded
///
/// An owner contains no colon, so no two records share a name.
class StorageLayout {
 public:
  /// The keys of a queue, in the order of parts/queue_names.lua: ready, delayed, leases, exhausted, finished
  /// (sorted sets), settings (a hash), the owner's index, and waiters (a sorted set). Scripts name further
  /// ones after the settings, where they need them.
  using QueueKeys = std::array<std::string, 8>;

  static constexpr std::size_t longest_prefix = 256;
  /// InvalidArgument for a prefix that is empty, too long, not UTF-8, or contains control characters; in the
  /// native layout also for one with a `{` that does not begin a tag, which would scatter an owner's keys.
  [[nodiscard]] static Result<StorageLayout> make(std::string_view prefix, std::uint32_t db,
                                                  RedisLayout layout = RedisLayout::documented,
                                                  Channels channels = Channels::global);

  [[nodiscard]] RedisLayout layout() const noexcept { return layout_; }
  [[nodiscard]] std::string record(const RecordKey& key) const;
  /// The part of the names of an owner's records before the task.
  [[nodiscard]] std::string record_prefix(std::string_view owner) const;
  [[nodiscard]] std::string index(std::string_view owner) const;
  /// A sharded channel has the name of its record, and so its slot.
  [[nodiscard]] std::string channel(const RecordKey& key) const;
  /// The part of the channels of an owner's records before the task.
  [[nodiscard]] std::string channel_prefix(std::string_view owner) const;
  [[nodiscard]] Channels channels() const noexcept { return channels_; }
  [[nodiscard]] const std::string& marker() const noexcept { return marker_; }

  [[nodiscard]] QueueKeys queue(std::string_view owner) const;
  /// The dead letters of the owner's queue: a sorted set, as the index.
  [[nodiscard]] std::string dead_letters(std::string_view owner) const;
  [[nodiscard]] std::string claims(std::string_view owner, std::string_view process,
                                   std::uint32_t slot) const;
  /// The part of the channel of a process that waits for the queue before the name of the process.
  [[nodiscard]] std::string work_prefix(std::string_view owner) const;

  /// Patterns, for ACLs, that match every name of a record, and the channel of every record in every
  /// database.
  [[nodiscard]] const std::string& pattern() const noexcept { return pattern_; }
  [[nodiscard]] const std::string& channel_pattern() const noexcept { return channel_pattern_; }
  /// The part of every channel before the record's key.
  [[nodiscard]] const std::string& channel_prefix() const noexcept { return changed_; }
  /// A SCAN pattern that matches every index, and others.
  [[nodiscard]] const std::string& index_pattern() const noexcept { return index_pattern_; }
  /// The owner of the index with this name; empty if it is not the name of an index.
  [[nodiscard]] std::optional<std::string_view> owner_of_index(std::string_view name) const;

 private:
  StorageLayout() = default;
  /// In the native layout: the part of the names of an owner's keys before their kind.
  [[nodiscard]] std::string tagged(std::string_view owner) const;

  RedisLayout layout_ = RedisLayout::documented;
  Channels channels_ = Channels::global;
  std::string head_;  ///< the prefix and a colon
  /// Up to the owner; in the native layout, behind the tag.
  std::string tasks_, index_, changed_, queue_, work_;
  std::string index_pattern_, pattern_, channel_pattern_, marker_;
};

// A colon joins a lock prefix and a user key, so prefixes nest: the key `b:x` under `a` and the key `x` under
// `a:b` have one name in Redis, `a:b:x`, and are one lock.

/// The lock prefix whose fence counter or authority has this name; empty if it is neither. A prefix that was
/// ever used has at least one such name, forever.
[[nodiscard]] std::optional<std::string> prefix_of_counter(std::string_view name);

/// Whether one of two different prefixes contains the other's names.
[[nodiscard]] bool prefixes_nest(std::string_view one, std::string_view other);

/// The prefixes that contain this one's names, the longest first; the last is the empty one.
[[nodiscard]] std::vector<std::string> outer_prefixes(std::string_view prefix);

}  // namespace holdfast::redis
