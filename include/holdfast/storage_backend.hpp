#pragma once

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace holdfast {

/// A place in an owner's list: records are in order of creation time, then of name, byte by byte.
struct ListPosition {
  WallTime created_at = {};
  std::string task;
  friend bool operator==(const ListPosition&, const ListPosition&) = default;
};

enum class ListOrder : std::uint8_t { oldest_first, newest_first };

inline constexpr std::size_t max_record_page = 1000;
/// A page ends early rather than hold more data than this; it holds one record at least.
inline constexpr std::size_t max_record_page_bytes = std::size_t{8} * 1024 * 1024;

struct ListedRecord {
  RecordKey key;
  StoredRecord record;
  WallTime created_at = {};
};

/// A live record that cannot be read. It does not keep the others from being listed.
struct UnreadableRecord {
  /// Its name, which may be any bytes.
  std::string task;
  /// Internal, or InvalidArgument for a name that no RecordKey has.
  Error why;
  /// How many of the page's records come before it.
  std::size_t follows = 0;
};

struct RecordPage {
  std::vector<ListedRecord> records;
  /// Where the next page goes on; empty on the last one.
  std::optional<ListPosition> next;
  /// In the order of the page.
  std::vector<UnreadableRecord> unreadable = {};
};

struct OwnerPage {
  /// As they stand in a RecordKey.
  std::vector<std::string> owners;
  std::string cursor;  ///< empty on the last page
  /// Tasks::owners: what is stored as an owner and is none. Engines leave it empty.
  std::vector<std::string> unreadable = {};
};

// Outcomes. Absence, conflict, a refused fence and a full quota are results, not errors.

struct Written {
  std::uint64_t version = 0;
  std::string incarnation;
};
struct AlreadyThere {
  StoredRecord record;
};
struct QuotaReached {
  std::size_t records = 0;
};
struct NoRecord {};
struct Removed {};

using CreateOutcome = std::variant<Written, AlreadyThere, QuotaReached>;
using PutOutcome = std::variant<Written, NoRecord, VersionConflict, FenceRefused>;
using RemoveOutcome = std::variant<Removed, NoRecord, VersionConflict, FenceRefused>;
using BindOutcome = std::variant<StoredRecord, NoRecord, FenceRefused>;
using RebindOutcome = std::variant<StoredRecord, NoRecord>;

[[nodiscard]] inline std::optional<Fence> fence_of(const std::optional<FencingToken>& token) noexcept {
  return token ? std::optional(token->fence) : std::nullopt;
}

/// The live record, if there is one. Stored data that is not as an engine writes it is Internal, never a
/// default.
struct GetRecord {
  using Outcome = std::optional<StoredRecord>;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::get_record; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str()}; }

  RecordKey key;
  BootTime deadline = never;
};

/// A new record. Never replaces one.
///
/// Creates the record unless it is there, or the owner's quota is reached, in one step whose cost does not
/// depend on how many records the owner has. AlreadyThere comes before QuotaReached.
struct CreateRecord {
  using Outcome = CreateOutcome;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::create_record; }
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  RecordKey key;
  RecordData data;
  /// Refuse if the owner has this many live records already; empty: no limit. Exact, whoever else creates.
  std::optional<std::size_t> quota = std::nullopt;
  /// Anything the creator wants to find again with the record, at most 256 bytes of UTF-8: a digest of the
  /// request, so that the same request made twice can be told from another under the same name.
  std::string origin = {};
  /// The lock that guards the record from its beginning.
  std::optional<FencingToken> fence = std::nullopt;
  BootTime deadline = never;
};

/// Writes the record: creates it, or replaces its data, counting its version up.
struct PutRecord {
  using Outcome = PutOutcome;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::put_record; }
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  RecordKey key;
  RecordData data;
  /// Empty: whatever is there, or nothing.
  std::optional<ExpectedVersion> expected = std::nullopt;
  std::optional<FencingToken> fence = std::nullopt;
  /// With a fence and nothing expected: write the record if it is absent too. Otherwise no fenced put creates
  /// one: the record a late writer means is gone.
  bool fenced_may_create = false;
  BootTime deadline = never;
};

struct RemoveRecord {
  using Outcome = RemoveOutcome;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::remove_record; }
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  RecordKey key;
  std::optional<ExpectedVersion> expected = std::nullopt;
  std::optional<FencingToken> fence = std::nullopt;
  BootTime deadline = never;
};

/// Take the record under a lock: bind it to the token's lock if it is bound to none, raise its fence, and
/// answer with it, in one step. From then on a lower fence bounces. Does not change the version. A record of
/// other software, which has no incarnation of its own, gets one.
struct BindRecord {
  using Outcome = BindOutcome;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::bind_record; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str(), .fence = fence.fence}; }

  RecordKey key;
  FencingToken fence;
  /// Empty: any. Otherwise a record of another incarnation counts as absent: the one that was meant is gone.
  std::string incarnation = {};
  BootTime deadline = never;
};

/// An operator's correction: the record is guarded by that token from now on, or by nothing, whatever guarded
/// it before. Does not change the version.
struct RebindRecord {
  using Outcome = RebindOutcome;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::rebind_record; }
  [[nodiscard]] RequestSubject subject() const noexcept {
    return {.key = key.str(), .fence = fence_of(fence)};
  }

  RecordKey key;
  std::optional<FencingToken> fence = std::nullopt;
  /// Only if a lock of this authority guards it; else the record is left, and answered, as it is. For an
  /// authority that is gone: a lock that has been bound since stays.
  std::optional<std::string> from_authority = std::nullopt;
  BootTime deadline = never;
};

/// An owner's live records, a page at a time. A record that is there throughout is listed exactly once,
/// whatever is created and removed meanwhile; one that cannot be read is named in its place. A prefix
/// without a colon at its end is InvalidArgument.
struct ListRecords {
  using Outcome = RecordPage;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::list_records; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = prefix}; }

  /// An owner's name with a colon behind it.
  std::string prefix;
  /// Go on behind this place, whether or not a record is there (any more); empty: from the beginning.
  std::optional<ListPosition> after = std::nullopt;
  /// Clamped to 1..max_record_page.
  std::size_t limit = 50;
  ListOrder order = ListOrder::oldest_first;
  BootTime deadline = never;
};

/// Whose records there are: for operators.
///
/// The owners of records, a page at a time, in no particular order. One that has live records throughout is
/// listed exactly once; one whose records are all gone may still be.
struct ListOwners {
  using Outcome = OwnerPage;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::list_owners; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {}; }

  /// Empty for the first page, else the cursor of the page before. Opaque; a foreign one is InvalidArgument.
  std::string cursor = {};
  /// Clamped to 1..max_record_page.
  std::size_t limit = 100;
  BootTime deadline = never;
};

/// Deletes what has expired and says how much that was; 0 where the engine does it by itself.
struct CleanupRecords {
  using Outcome = std::size_t;
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::cleanup_records; }
  [[nodiscard]] RequestSubject subject() const noexcept { return {}; }

  BootTime deadline = never;
};

/// Watch a record. Every watch of it is woken by every change after its creation; a wake-up is a hint to
/// look. Answered with null by an engine that cannot wake: then one polls. Changes by other software, and
/// expiry, wake no watch.
struct WatchRecord {
  using Outcome = std::unique_ptr<Watch>;
  /// An engine whose operations block its caller answers this one without I/O.
  static constexpr bool never_blocks = true;

  RecordKey key;
  BootTime deadline = never;
};

/// The storage contract: versioned records by owner. Every engine keeps it; one suite of tests checks them
/// all. It knows nothing of what the records mean, apart from the two times in RecordData.
///
/// Operations complete as those of LockBackend do: exactly once, inline or from another thread; failures are
/// the same codes. A transient failure of a change means *unknown*: it may have taken effect. An engine that
/// asks a server again after a lost answer recognises its own change and makes it once. Only if somebody else
/// undoes it in between (removes what was created, creates again what was removed) is it made again; a remove
/// that names an incarnation is not.
///
/// Time. `now` is the engine's clock. A record whose expiry has come is absent, for reads, lists, quotas and
/// every change, to the millisecond. A write sets the expiry anew from its data; data without one never
/// expires.
///
/// Fences. A write may carry a FencingToken. A record that no lock guards is guarded by the token's from then
/// on; one guarded by the same lock refuses a lower fence than the highest it has seen (equal is allowed) and
/// remembers a higher one; one guarded by another lock refuses. All in the same atomic step as the write, and
/// before versions are compared. A write without a token is not checked and leaves the guard as it is.
///
/// Checks come in this order: absent, fence, version. A refused write changes nothing.
///
/// Threads and fork: as LockBackend.
class HOLDFAST_EXPORT StorageBackend
    : public Contract<GetRecord, CreateRecord, PutRecord, RemoveRecord, BindRecord, RebindRecord, ListRecords,
                      ListOwners, CleanupRecords, WatchRecord> {
 public:
  using Operations = Contract;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// As Capabilities::blocks.
  [[nodiscard]] virtual bool blocks() const noexcept = 0;

  /// The engine's wall clock as far as this side knows it, without asking a server; for the times in new
  /// records.
  [[nodiscard]] virtual WallTime now() const = 0;

  /// As LockBackend::wait.
  virtual void wait(Completion& completion);
};

}  // namespace holdfast
