#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/change_feed.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/contract.hpp>
#include <holdfast/record_requests.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace holdfast {

// The operations of a queue: part of the storage contract. The records of one queue have one owner
// (`owner` below, as in a RecordKey). docs/internals/queues.md explains why they are as they are.

/// One claimed record.
struct ClaimedRecord {
  /// The record's key.
  RecordKey key;
  /// The record. Its `bound_to` is the token of this claim: the fence is higher than that of every earlier
  /// claim of the record. Its `queue` has the lease.
  StoredRecord record;
};

/// The result of a claim of the next records.
struct ClaimedRecords {
  /// The claimed records, in the order of the queue; empty if none can be claimed now.
  std::vector<ClaimedRecord> claimed;
  /// Records in QueuePlace::exhausted, at most max_exhausted_records of them: the caller ends each by a put
  /// that leaves the queue.
  std::vector<ClaimedRecord> exhausted = {};
  /// If none was claimed: after this time one may be claimable without a further wake-up, because a delay or
  /// a lease ends. Zero: the request ended early, because its work is bounded, so a record may be claimable
  /// now: repeat the request, with ClaimNext::searched. Empty: no record of the queue is delayed or leased,
  /// or the queue is paused.
  std::optional<std::chrono::milliseconds> look_again_after = std::nullopt;
  /// Whether the queue is paused.
  bool paused = false;
};

/// The greatest number of records that one request claims.
inline constexpr std::size_t max_claimed_records = 100;
/// The greatest number of exhausted records in one result.
inline constexpr std::size_t max_exhausted_records = 10;
/// The greatest number of leases that one request renews.
inline constexpr std::size_t max_renewed_leases = 1000;
/// The greatest value of ConfigureQueue::max_leased.
inline constexpr std::size_t max_lease_limit = 1'000'000'000;

/// The terms of a claim.
struct ClaimTerms {
  /// A label of the worker, for people: at most 256 bytes of UTF-8 (InvalidArgument).
  std::string worker;
  /// How long the lease lasts unless it is renewed; as the ttl of a lock.
  std::chrono::milliseconds lease{};
  /// The greatest number of records to claim; clamped to 1..max_claimed_records.
  std::size_t limit = 1;
  /// Whether the work ends with this process, so that an engine that notices the end of a process may treat
  /// the lease as expired then: StorageBackend::process_mark.
  bool ends_with_process = false;
};

/// Claims the next records of a queue, in one atomic step: removes leases that have expired, moves records
/// whose delay is over to the ready ones (a bounded number of each), takes the first ready records by
/// priority and order, and gives each a lease, an attempt and a higher fence. If the queue is paused, it does
/// all but the last.
///
/// The order is strict: if more leases have expired, or more delays are over, than one request moves, it
/// claims nothing and ends early (ClaimedRecords::look_again_after), because those that remain may come
/// first.
///
/// A ready record is parked instead if as many records with its QueueTerms::limit_key are leased as it
/// allows, expired leases included until a claim removes them; so is one that becomes ready then. When one of
/// those leases ends, or a ready record of the key leaves the queue, the first parked one of the key, by
/// priority and order, is ready again in its old place. So the cost of a claim does not depend on the parked
/// ones.
struct ClaimNext {
  /// The result.
  using Outcome = ClaimedRecords;
  /// Returns Activity::claim_next.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::claim_next; }
  /// Returns the owner for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = owner}; }

  /// The owner of the queue's records.
  std::string owner;
  /// Who claims, and for how long.
  ClaimTerms terms;
  /// For how long the caller has repeated this request because each answer ended early; not negative
  /// (InvalidArgument). Leases that have expired, and delays that were over, for a shorter time than this do
  /// not hold back the claim. So a search ends, however many become due while it goes on.
  std::chrono::milliseconds searched{};
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// The record is not claimable: its state says why (leased, parked, exhausted, finished, dead), or it is in
/// no queue.
struct NotClaimable {
  /// The record.
  StoredRecord record;
};
/// The result of ClaimRecord.
using ClaimOutcome = std::variant<NoRecord, ClaimedRecord, NotClaimable>;

/// Claims one record, which must be ready, delayed or parked: its lease, attempt and fence are as those of
/// ClaimNext, and the two exclude each other. If its lease has expired, it is removed first, as ClaimNext
/// does it. A paused queue does not prevent the claim; a queue, or a limit key, with as many leases as it may
/// have does (NotClaimable, with a record that is ready, delayed or parked).
struct ClaimRecord {
  /// The result.
  using Outcome = ClaimOutcome;
  /// Returns Activity::claim_record.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::claim_record; }
  /// Returns the key for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str()}; }

  /// The record to claim.
  RecordKey key;
  /// Who claims, and for how long; the limit is not used.
  ClaimTerms terms;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// A lease, as its holder knows it.
struct LeaseReference {
  /// The record's name.
  std::string task;
  /// The record's incarnation.
  std::string incarnation;
  /// The fence of the claim.
  Fence fence;
};
/// What became of one lease.
struct RenewedLease {
  /// Whether the lease was renewed. False: it has expired, was ended, or is another claim's.
  bool is_held = false;
  /// How long it lasts from the moment of the request: at most as requested, less if the record's
  /// QueueTerms::attempt_limit ends it earlier.
  std::chrono::milliseconds lasts{};
  /// The record's version; 0 if the lease is not held. If it moved without the holder, the record was changed
  /// by another client.
  std::uint64_t version = 0;
};

/// Renews leases of one queue, each for itself. Never revives an expired lease.
struct RenewLeases {
  /// One for each lease, in the order of the request.
  using Outcome = std::vector<RenewedLease>;
  /// Returns Activity::renew_leases.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::renew_leases; }
  /// Returns the owner for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = owner}; }

  /// The owner of the queue's records.
  std::string owner;
  /// At most max_renewed_leases (InvalidArgument otherwise).
  std::vector<LeaseReference> leases;
  /// The new length of each lease, from now.
  std::chrono::milliseconds lease{};
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// How a lease ends.
enum class LeaseEnd : std::uint8_t {
  finished,    ///< the data of the request is final: the record leaves the queue
  retried,     ///< the record is claimable again, behind the others, after a delay; the attempt counts
  given_back,  ///< the record is claimable again, in its old place; the attempt does not count
};
/// The lease was ended; the record was not written.
struct LeaseEnded {};
/// What became of the record when its lease ended.
using EndOutcome = std::variant<Written, LeaseEnded, NoRecord, VersionConflict, FenceRefused>;
/// The result of EndLease.
struct EndedLease {
  /// What became of the record.
  EndOutcome end;
  /// The result of EndLease::then, if it was requested and the end was not refused.
  std::optional<ClaimedRecords> next = std::nullopt;
};

/// Ends a lease and writes its record, in one atomic step; on request it also claims the next record of the
/// queue in that step. The fence must be the highest of the record (FenceRefused otherwise): an outcome is
/// accepted after the lease has expired too, as long as no other claim was granted. Order of checks: absent
/// (or another incarnation, or in no queue), fence, version.
///
/// An end does not bring back a record that has left the queue: its place stays. Once a claim has removed the
/// expired lease, `given_back` changes nothing, because the attempt ended by a death, and an exhausted record
/// stays exhausted.
struct EndLease {
  /// The result.
  using Outcome = EndedLease;
  /// Returns Activity::end_lease.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::end_lease; }
  /// Returns key and fence for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = key.str(), .fence = token.fence}; }

  /// The record.
  RecordKey key;
  /// The incarnation that was claimed.
  std::string incarnation;
  /// The token of the claim.
  FencingToken token;
  /// What happens to the record.
  LeaseEnd end = LeaseEnd::finished;
  /// The new data and the version that it replaces; required for `finished`, optional otherwise.
  std::optional<std::pair<RecordData, ExpectedVersion>> write = std::nullopt;
  /// Without `write`: the version that the record must have (VersionConflict otherwise); empty: any.
  std::optional<ExpectedVersion> expected = std::nullopt;
  /// With `retried`: how long the record is not claimable.
  std::chrono::milliseconds delay{};
  /// With `finished`: the record becomes a dead letter of its queue, which keeps at most this many of them;
  /// 0: any number. Beyond that the oldest are removed, a few in each step. Empty: it is not a dead letter.
  std::optional<std::size_t> max_dead = std::nullopt;
  /// Claim the next record of the same queue on these terms.
  std::optional<ClaimTerms> then = std::nullopt;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// A queue, counted.
struct QueueCounts {
  std::size_t ready = 0,  ///< claimable now
      delayed = 0,        ///< claimable later, or by now, until a claim finds that out
      leased = 0,         ///< being worked on, expired leases included until a claim removes them
      expired = 0,        ///< of those leased: the lease has expired, and no claim has removed it yet
      exhausted = 0,      ///< waiting for the write that ends them
      parked = 0,         ///< ready, but as many records with their key are leased as may be
      dead = 0,           ///< dead letters, expired ones that are not deleted yet included
      records = 0;        ///< all, finished ones included, and expired ones that are not deleted yet
  /// Whether ClaimNext claims nothing.
  bool paused = false;
  /// How many records may be leased at once; empty: any number.
  std::optional<std::size_t> max_leased = std::nullopt;
  /// When the first ready record became ready; empty if there is none.
  std::optional<WallTime> oldest_ready = std::nullopt;
  /// When the next delayed record becomes ready; empty if there is none.
  std::optional<WallTime> next_due = std::nullopt;
};

/// Counts the records of a queue. The cost does not depend on their number, except that the embedded engines
/// count expired leases one by one. A queue that does not exist is empty.
struct CountQueue {
  /// The counts.
  using Outcome = QueueCounts;
  /// Returns Activity::count_queue.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::count_queue; }
  /// Returns the owner for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = owner}; }

  /// The owner of the queue's records.
  std::string owner;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Changes the settings of a queue, which need not have records yet. The settings last until they are
/// changed.
struct ConfigureQueue {
  /// The queue after the change.
  using Outcome = QueueCounts;
  /// Returns Activity::configure_queue.
  [[nodiscard]] static constexpr Activity activity() noexcept { return Activity::configure_queue; }
  /// Returns the owner for observers. Points into this request.
  [[nodiscard]] RequestSubject subject() const noexcept { return {.key = owner}; }

  /// The owner of the queue's records.
  std::string owner;
  /// Pause or resume; empty: as it is.
  std::optional<bool> paused = std::nullopt;
  /// How many records may be leased at once, at most max_lease_limit (InvalidArgument); 0: any number; empty:
  /// as it is. Leases above a lowered limit stay.
  std::optional<std::size_t> max_leased = std::nullopt;
  /// When to give up with NetworkTimeout.
  BootTime deadline = never;
};

/// Watches a queue. A record that becomes ready by a create, a retry or a give-back, a queue that is resumed,
/// and a lease that ends where the limit of leases was reached, wakes one watch, of any process where the
/// engine can; a delay or a lease whose time has come wakes none (ClaimedRecords::look_again_after). A
/// delayed record that is the next one may wake one, which then learns its time. A wake-up is a hint to
/// claim. The outcome is null for an engine that cannot wake: then the caller polls.
struct WatchQueue {
  /// The watch, owned by the caller; may be null.
  using Outcome = std::unique_ptr<Watch>;
  /// An engine whose operations block its caller answers this one without I/O.
  static constexpr bool never_blocks = true;

  /// The owner of the queue's records.
  std::string owner;
  /// When to give up.
  BootTime deadline = never;
};

}  // namespace holdfast
