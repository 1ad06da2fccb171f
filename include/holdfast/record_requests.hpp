#pragma once

#include <cstdint>
#include <holdfast/change_feed.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace holdfast {

/// A place in an owner's list: records are ordered by creation time, then by name, byte by byte.
struct ListPosition {
  /// As RecordData::created_at.
  WallTime created_at = {};
  /// The record's name; may be any bytes.
  std::string task;
  /// Compares both members.
  friend bool operator==(const ListPosition&, const ListPosition&) = default;
};

/// The order of a list.
enum class ListOrder : std::uint8_t {
  oldest_first,  ///< by ascending ListPosition
  newest_first   ///< by descending ListPosition
};

/// The greatest number of records on one page.
inline constexpr std::size_t max_record_page = 1000;
/// The greatest amount of data on one page: a page ends early rather than hold more. It holds at least one
/// record.
inline constexpr std::size_t max_record_page_bytes = std::size_t{8} * 1024 * 1024;

/// One record of a page.
struct ListedRecord {
  /// The record's key.
  RecordKey key;
  /// The record.
  StoredRecord record;
  /// Its creation time, which is its place in the list.
  WallTime created_at = {};
};

/// A live record that cannot be read. It does not prevent the others from being listed.
struct UnreadableRecord {
  /// Its name, which may be any bytes.
  std::string task;
  /// Internal, or InvalidArgument if the name is not valid in a RecordKey.
  Error why;
  /// How many of the page's records come before it.
  std::size_t follows = 0;
};

/// One page of an owner's records.
struct RecordPage {
  /// In the order of the request.
  std::vector<ListedRecord> records;
  /// Where the next page continues (ListRecords::after); empty on the last page.
  std::optional<ListPosition> next;
  /// In the order of the page.
  std::vector<UnreadableRecord> unreadable = {};
};

/// One page of the owners of records.
struct OwnerPage {
  /// From an engine: as in a RecordKey. From Tasks::owners: as the functions of Tasks take them.
  std::vector<std::string> owners;
  /// The cursor of the next page; empty on the last one.
  std::string cursor;
  /// Tasks::owners: stored names that are not valid owners. Engines leave it empty.
  std::vector<std::string> unreadable = {};
};

// Outcomes. Absence, a conflict, a refused fence and a reached quota are results, not errors.

/// The record was written.
struct Written {
  /// The version that the record has now.
  std::uint64_t version = 0;
  /// The incarnation of the record; see StoredRecord.
  std::string incarnation;
};
/// The record exists already; nothing was created.
struct AlreadyThere {
  /// The record that exists.
  StoredRecord record;
};
/// The owner has as many live records as the request allows; nothing was created.
struct QuotaReached {
  /// How many live records the owner has.
  std::size_t records = 0;
};
/// No live record has this key (and this incarnation, if one was given); nothing was changed.
struct NoRecord {};
/// The record was removed.
struct Removed {};

/// The result of CreateRecord.
using CreateOutcome = std::variant<Written, AlreadyThere, QuotaReached>;
/// The result of PutRecord.
using PutOutcome = std::variant<Written, NoRecord, VersionConflict, FenceRefused>;
/// The result of RemoveRecord.
using RemoveOutcome = std::variant<Removed, NoRecord, VersionConflict, FenceRefused>;
/// The result of BindRecord; the record is as it is after the bind.
using BindOutcome = std::variant<StoredRecord, NoRecord, FenceRefused>;
/// The result of RebindRecord; the record is as it is after the request.
using RebindOutcome = std::variant<StoredRecord, NoRecord>;

/// Returns the token's fence, if there is a token.
[[nodiscard]] inline std::optional<Fence> fence_of(const std::optional<FencingToken>& token) noexcept {
  return token ? std::optional(token->fence) : std::nullopt;
}

/// Reads a live record. Stored data that is not as an engine writes it gives Internal, never a default value.
struct GetRecord {
  /// The record; empty if there is none.
  using Outcome = std::optional<StoredRecord>;
  /// Returns Activity::get_record.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::get_record; }
  /// Returns the key for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str()}; }

  /// The record to read.
  RecordKey key;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Creates a record unless it exists or the owner's quota is reached, in one atomic step. Never replaces a
/// record. The cost does not depend on how many records the owner has. AlreadyThere has precedence over
/// QuotaReached.
struct CreateRecord {
  /// The result.
  using Outcome = CreateOutcome;
  /// Returns Activity::create_record.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::create_record; }
  /// Returns key and fence for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  /// The record to create.
  RecordKey key;
  /// Its data.
  RecordData data;
  /// Refuse if the owner has this many live records already; empty: no limit. Exact under concurrent creates.
  std::optional<std::size_t> quota = std::nullopt;
  /// A value that the creator wants to find again with the record, at most 256 bytes of UTF-8
  /// (InvalidArgument otherwise). For example a digest of the request, to distinguish the same request made
  /// twice from another request under the same name.
  std::string origin = {};
  /// Binds the record to this lock from its creation. Not together with `queue`, whose claims bind it
  /// (InvalidArgument).
  std::optional<FencingToken> fence = std::nullopt;
  /// Adds the record to the queue of its owner, ready or delayed; empty: it is in no queue.
  std::optional<QueueTerms> queue = std::nullopt;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Writes a record: creates it with version 1, or replaces its data and increments its version.
struct PutRecord {
  /// The result.
  using Outcome = PutOutcome;
  /// Returns Activity::put_record.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::put_record; }
  /// Returns key and fence for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  /// The record to write.
  RecordKey key;
  /// The new data; the record's expiry is set anew from it.
  RecordData data;
  /// Write only if the record has this version: otherwise VersionConflict, or NoRecord if it is absent.
  /// Empty: write whether or not the record exists.
  std::optional<ExpectedVersion> expected = std::nullopt;
  /// The fence that the write carries; see StorageBackend.
  std::optional<FencingToken> fence = std::nullopt;
  /// With a fence and without `expected`: write the record even if it is absent. By default a fenced put
  /// never creates a record, because the record that a late writer means is gone: NoRecord.
  bool fenced_may_create = false;
  /// The data is final: a record that is in a queue leaves it, whether or not it is leased.
  bool leaves_queue = false;
  /// With `leaves_queue`: as EndLease::max_dead.
  std::optional<std::size_t> max_dead = std::nullopt;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Removes a record.
struct RemoveRecord {
  /// The result.
  using Outcome = RemoveOutcome;
  /// Returns Activity::remove_record.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::remove_record; }
  /// Returns key and fence for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  /// The record to remove.
  RecordKey key;
  /// Remove only if the record has this version; empty: any.
  std::optional<ExpectedVersion> expected = std::nullopt;
  /// The fence that the request carries; see StorageBackend.
  std::optional<FencingToken> fence = std::nullopt;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Binds a record to the token's lock if it is bound to none, raises its fence, and returns it, in one atomic
/// step. From then on writes with a lower fence are refused. The version does not change. A record of other
/// software, which is stored without an incarnation, gets one.
struct BindRecord {
  /// The result.
  using Outcome = BindOutcome;
  /// Returns Activity::bind_record.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::bind_record; }
  /// Returns key and fence for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str(), .fence = fence.fence}; }

  /// The record to bind.
  RecordKey key;
  /// The lock to bind it to, and its fence.
  FencingToken fence;
  /// Empty: any. Otherwise a record of another incarnation counts as absent: the one that was meant is gone.
  std::string incarnation = {};
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Binds a record to another lock, or to none, whatever lock guarded it before: a correction by an operator.
/// The version does not change.
struct RebindRecord {
  /// The result.
  using Outcome = RebindOutcome;
  /// Returns Activity::rebind_record.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::rebind_record; }
  /// Returns key and fence for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  /// The record to rebind.
  RecordKey key;
  /// The new lock and its fence; empty: no lock guards the record.
  std::optional<FencingToken> fence = std::nullopt;
  /// Only if a lock of this authority guards the record; otherwise the record is left, and returned, as it
  /// is. For an authority that is gone: a lock that was bound since then stays.
  std::optional<std::string> from_authority = std::nullopt;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Lists an owner's live records, one page at a time. A record that exists throughout is listed exactly once,
/// whatever is created and removed meanwhile; an unreadable one is reported at its place.
struct ListRecords {
  /// The page.
  using Outcome = RecordPage;
  /// Returns Activity::list_records.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::list_records; }
  /// Returns the prefix for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = prefix}; }

  /// An owner's name followed by a colon. Without the colon at its end: InvalidArgument.
  std::string prefix;
  /// Continue after this place, whether or not a record is (still) there; empty: from the beginning.
  std::optional<ListPosition> after = std::nullopt;
  /// The greatest number of records on the page; clamped to 1..max_record_page.
  std::size_t limit = 50;
  /// The order of the page.
  ListOrder order = ListOrder::oldest_first;
  /// Only the dead letters of the owner's queue (QueuePlace::dead). They are ordered by when they left it:
  /// that time is in ListPosition::created_at and ListedRecord::created_at then. The cost does not depend on
  /// the other records.
  bool only_dead = false;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Lists the owners of records, one page at a time, in no particular order, for operators. An owner that has
/// live records throughout is listed exactly once; an owner whose records are all gone may still be listed.
struct ListOwners {
  /// The page.
  using Outcome = OwnerPage;
  /// Returns Activity::list_owners.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::list_owners; }
  /// Returns an empty subject.
  [[nodiscard]] RequestSubject subject() const noexcept { return {}; }

  /// Empty for the first page, else OwnerPage::cursor of the page before. Opaque; a foreign cursor is
  /// InvalidArgument.
  std::string cursor = {};
  /// The greatest number of owners on the page; clamped to 1..max_record_page.
  std::size_t limit = 100;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Deletes expired records of all owners; the outcome is their number, 0 if the engine deletes them
/// automatically.
struct CleanupRecords {
  /// How many records were deleted.
  using Outcome = std::size_t;
  /// Returns Activity::cleanup_records.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::cleanup_records; }
  /// Returns an empty subject.
  [[nodiscard]] RequestSubject subject() const noexcept { return {}; }

  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Watches a record. Every change after the creation of a watch wakes every watch of that record; a wake-up
/// is a hint to read it again. The outcome is null for an engine that cannot wake: then the caller polls.
/// Changes by other software, and expiry, wake no watch.
struct WatchRecord {
  /// The watch, owned by the caller; may be null.
  using Outcome = std::unique_ptr<Watch>;
  /// An engine whose operations block its caller answers this one without I/O.
  static constexpr bool never_blocks = true;

  /// The record to watch.
  RecordKey key;
  /// When to give up.
  BootTime deadline = never;
};

/// Follows the changes of all records of the store, and late writes that they refuse: a feed, which the
/// caller owns. The outcome is null for an engine, or a user of a server, that cannot follow: then a viewer
/// polls.
struct FollowRecords {
  /// The feed; may be null.
  using Outcome = std::unique_ptr<ChangeFeed>;
  /// An engine whose operations block its caller answers this one without I/O.
  static constexpr bool never_blocks = true;

  /// When to give up waiting for the server's confirmation; see FollowLocks.
  BootTime deadline = never;
};

}  // namespace holdfast
