#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <holdfast/lock_types.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/liveness.hpp"
#include "core/queue_entry.hpp"
#include "core/record_decisions.hpp"
#include "core/record_request.hpp"
#include "core/utf8.hpp"

/// Decides how each operation changes a record's state in its queue. An engine finds the record, calls a
/// function here and stores the result, all within one atomic step. The Lua scripts of Redis are a second
/// implementation; the same contract tests check both. docs/internals/queues.md has the reasons.
namespace holdfast::core {

/// The two clocks of a queue: due times and ages run on the first, leases on the second.
struct QueueTime {
  WallTime wall = {};
  std::chrono::milliseconds leases = {};
};

/// How many expired leases one claim removes, how many delayed records it moves, and how many records that
/// cannot be claimed it passes: its cost is bounded.
inline constexpr std::size_t max_moves_per_claim = 100;
/// How many dead letters one step removes that are too many: the limit may have been lowered.
inline constexpr std::size_t max_dead_removed = 10;

// Arguments.

[[nodiscard]] inline std::optional<Error> refuse_queue_terms(const QueueTerms& terms) {
  constexpr std::int32_t widest_priority = 1000;
  constexpr std::uint32_t most_attempts = 1'000'000;
  const auto refused = [](std::string what) { return Error(ErrorCode::InvalidArgument, std::move(what)); };
  if (terms.priority < -widest_priority || terms.priority > widest_priority) {
    return refused("a priority is " + std::to_string(terms.priority) + "; it must be from -1000 to 1000");
  }
  if (terms.max_attempts < 1 || terms.max_attempts > most_attempts) {
    return refused("a number of attempts is " + std::to_string(terms.max_attempts) +
                   "; it must be from 1 to 1000000");
  }
  if (terms.max_age < std::chrono::milliseconds(1)) {
    return refused("a greatest age is " + std::to_string(terms.max_age.count()) +
                   " ms; it must be at least 1 ms");
  }
  if (terms.attempt_limit < std::chrono::milliseconds::zero()) {
    return refused("the time limit of an attempt is negative; use 0 for no limit");
  }
  if (std::min(terms.retention, terms.failed_retention) < std::chrono::milliseconds::zero()) {
    return refused("a retention is negative; use 0 to keep nothing");
  }
  constexpr std::size_t longest_key = 256;
  if (terms.limit_key.size() > longest_key || !is_utf8(terms.limit_key)) {
    return refused("a limit key is at most " + std::to_string(longest_key) + " bytes of UTF-8");
  }
  constexpr std::uint32_t highest_limit = 1'000'000;
  if (terms.limit < 1 || terms.limit > highest_limit) {
    return refused("the limit of a key is " + std::to_string(terms.limit) + "; it must be from 1 to 1000000");
  }
  return std::nullopt;
}

[[nodiscard]] inline std::optional<Error> refuse_create(const CreateRecord& request) {
  auto refused = refuse_origin(request.origin);
  if (!refused && request.queue && request.fence) {
    refused = Error(ErrorCode::InvalidArgument,
                    "a record of a queue is bound by its claims; create it without a fence");
  }
  if (!refused && request.queue) refused = refuse_queue_terms(*request.queue);
  return refused ? std::optional(refused->about(request.key.str(), {})) : std::nullopt;
}

[[nodiscard]] inline std::optional<Error> refuse_queue_owner(std::string_view owner) {
  const auto key = RecordKey::of(owner, {});
  return key ? std::nullopt : std::optional(key.error());
}

[[nodiscard]] inline std::optional<Error> refuse_lease(std::chrono::milliseconds lease) {
  const auto length = Ttl::of(lease);
  return length ? std::nullopt : std::optional(length.error());
}

[[nodiscard]] inline std::optional<Error> refuse_claim_terms(const ClaimTerms& terms) {
  constexpr std::size_t max_bytes = 256;
  if (terms.worker.size() > max_bytes) {
    return Error(ErrorCode::InvalidArgument, "a worker's label is " + std::to_string(terms.worker.size()) +
                                                 " bytes long; at most " + std::to_string(max_bytes) +
                                                 " fit");
  }
  if (!is_utf8(terms.worker)) {
    return Error(ErrorCode::InvalidArgument, "a worker's label is not valid UTF-8");
  }
  return refuse_lease(terms.lease);
}

[[nodiscard]] inline std::optional<Error> refuse_arguments(const ClaimNext& request) {
  if (auto refused = refuse_queue_owner(request.owner)) return refused;
  if (request.searched < std::chrono::milliseconds::zero()) {
    return Error(ErrorCode::InvalidArgument, "the time that a claim has searched is negative");
  }
  return refuse_claim_terms(request.terms);
}
[[nodiscard]] inline std::optional<Error> refuse_arguments(const ClaimRecord& request) {
  return refuse_claim_terms(request.terms);
}
[[nodiscard]] inline std::optional<Error> refuse_arguments(const RenewLeases& request) {
  if (auto refused = refuse_queue_owner(request.owner)) return refused;
  if (request.leases.size() > max_renewed_leases) {
    return Error(ErrorCode::InvalidArgument, "at most " + std::to_string(max_renewed_leases) +
                                                 " leases can be renewed at once. Pass fewer");
  }
  return refuse_lease(request.lease);
}
[[nodiscard]] inline std::optional<Error> refuse_arguments(const EndLease& request) {
  if (request.end == LeaseEnd::finished && !request.write) {
    return Error(ErrorCode::InvalidArgument, "a lease ends as finished with the final data only");
  }
  if (request.delay < std::chrono::milliseconds::zero()) {
    return Error(ErrorCode::InvalidArgument, "the delay of a retry is negative");
  }
  return request.then ? refuse_claim_terms(*request.then) : std::nullopt;
}
[[nodiscard]] inline std::optional<Error> refuse_arguments(const CountQueue& request) {
  return refuse_queue_owner(request.owner);
}
[[nodiscard]] inline std::optional<Error> refuse_arguments(const ConfigureQueue& request) {
  if (request.max_leased.value_or(0) > max_lease_limit) {
    return Error(ErrorCode::InvalidArgument,
                 "the limit of tasks that are worked on is " + std::to_string(*request.max_leased) +
                     "; at most " + std::to_string(max_lease_limit) + " is allowed. Pass 0 for any number");
  }
  return refuse_queue_owner(request.owner);
}

/// Clamps ClaimTerms::limit.
[[nodiscard]] constexpr std::size_t claim_limit(std::size_t requested) noexcept {
  return std::clamp<std::size_t>(requested, 1, max_claimed_records);
}

// States. `next` is the queue's next sequence number: if the result has it, it is used.

/// Never later than the type can express: a queue may be told to keep a record for any time.
[[nodiscard]] constexpr WallTime saturating_add(WallTime at, std::chrono::milliseconds by) noexcept {
  return by > std::chrono::milliseconds::zero() && at > WallTime::max() - by ? WallTime::max() : at + by;
}

/// Gives the entry, and what readers see of it, to the record.
inline void set_queue(RecordEntry& record, QueueEntry entry) {
  auto stored = std::make_shared<const QueueEntry>(std::move(entry));
  record.record.queue = std::shared_ptr<const QueueState>(stored, &stored->state);
  record.queue = std::move(stored);
}

/// Whether no further claim may start: no attempt is left, or the record is too old.
[[nodiscard]] inline bool is_exhausted(const QueueState& state, WallTime now) noexcept {
  return state.attempts >= state.terms.max_attempts || is_due(state.fails_at, now);
}

[[nodiscard]] inline bool has_lease_expired(const QueueEntry& entry, QueueTime now) noexcept {
  return entry.state.place == QueuePlace::leased && is_due(entry.lease_deadline, now.leases);
}

/// The entry in this place, without a lease.
[[nodiscard]] inline QueueEntry moved_to(QueuePlace place, QueueEntry entry) {
  entry.state.place = place;
  entry.state.lease_expires_at = {};
  entry.lease_deadline = entry.attempt_deadline = {};
  return entry;
}

/// Behind the others: ready, or exhausted.
[[nodiscard]] inline QueueEntry moved_behind(QueueEntry entry, WallTime now, std::uint64_t next) {
  const auto place = is_exhausted(entry.state, now) ? QueuePlace::exhausted : QueuePlace::ready;
  entry.sequence = next;
  return moved_to(place, std::move(entry));
}

/// A record that is created: ready, or delayed.
[[nodiscard]] inline QueueEntry enter_queue(const QueueTerms& terms, WallTime now, std::uint64_t next) {
  const bool is_delayed = terms.not_before && *terms.not_before > now;
  QueueEntry entry;
  entry.state.terms = terms;
  entry.state.place = is_delayed ? QueuePlace::delayed : QueuePlace::ready;
  entry.state.due_at = is_delayed ? *terms.not_before : now;
  entry.state.fails_at = saturating_add(entry.state.due_at, terms.max_age);
  if (!is_delayed) entry.sequence = next;
  return entry;
}

/// A delayed record whose time has come.
[[nodiscard]] inline QueueEntry promote(QueueEntry entry, WallTime now, std::uint64_t next) {
  return moved_behind(std::move(entry), now, next);
}

/// A record whose lease has expired.
[[nodiscard]] inline QueueEntry expire_lease(QueueEntry entry, WallTime now, std::uint64_t next) {
  ++entry.state.deaths;
  return moved_behind(std::move(entry), now, next);
}

/// A record that no claim may start any more.
[[nodiscard]] inline QueueEntry exhaust(QueueEntry entry, std::uint64_t next) {
  entry.sequence = next;
  return moved_to(QueuePlace::exhausted, std::move(entry));
}

/// A record that leaves its queue, if it has not left it already.
[[nodiscard]] inline QueueEntry leave_queue(QueueEntry entry) {
  if (has_left_queue(entry.state.place)) return entry;
  return moved_to(QueuePlace::finished, std::move(entry));
}
/// The same for one that becomes a dead letter.
[[nodiscard]] inline QueueEntry die(QueueEntry entry, WallTime now) {
  if (has_left_queue(entry.state.place)) return entry;
  entry.died_at = now;
  return moved_to(QueuePlace::dead, std::move(entry));
}

// Limits of keys. `leased`: how many records of the queue with the key are leased, expired leases included.

[[nodiscard]] inline bool has_limit_key(const QueueEntry& entry) noexcept {
  return !entry.state.terms.limit_key.empty();
}
[[nodiscard]] inline bool is_over_limit(const QueueEntry& entry, std::size_t leased) noexcept {
  return has_limit_key(entry) && leased >= entry.state.terms.limit;
}
/// A record that becomes ready, or parked. `leased` does not count itself.
[[nodiscard]] inline QueueEntry admit(QueueEntry entry, std::size_t leased) {
  if (entry.state.place == QueuePlace::ready && is_over_limit(entry, leased)) {
    entry.state.place = QueuePlace::parked;
  }
  return entry;
}
/// Whether a record that moves makes room for a parked one of its key: its lease has ended, or it was ready
/// and will not be claimed. While a record is parked under a key, another one of the key is leased or ready:
/// it is parked only if one is leased, and each that stops being either lets one go.
[[nodiscard]] inline bool makes_room(QueuePlace from, QueuePlace to) noexcept {
  if (from == QueuePlace::leased) return to != QueuePlace::leased;
  if (from != QueuePlace::ready) return false;
  return to != QueuePlace::ready && to != QueuePlace::leased && to != QueuePlace::parked;
}

/// A record that is claimed. Its place in the order stays with it, in case it is given back.
[[nodiscard]] inline QueueEntry claim(QueueEntry entry, const ClaimTerms& terms, QueueTime now) {
  auto& state = entry.state;
  const auto limit = state.terms.attempt_limit;
  const bool is_limited = limit > std::chrono::milliseconds::zero();
  const auto lasts = is_limited ? std::min(terms.lease, limit) : terms.lease;
  state.place = QueuePlace::leased;
  ++state.attempts;
  state.worker = terms.worker;
  state.claimed_at = now.wall;
  state.lease_expires_at = now.wall + lasts;
  entry.lease_deadline = now.leases + lasts;
  // A limit beyond what the type can express is none.
  const bool is_reached = is_limited && limit <= std::chrono::milliseconds::max() - now.leases;
  entry.attempt_deadline = is_reached ? now.leases + limit : std::chrono::milliseconds::zero();
  return entry;
}

// Renewals.

/// Set the lease's deadline; the outcome says how long that is from now.
struct Renewal {
  QueueEntry entry;
  std::chrono::milliseconds lasts = {};
};

/// Empty if the lease is not held: it has expired, was ended, or is another claim's.
[[nodiscard]] inline std::optional<Renewal> decide_renewal(const LeaseReference& lease,
                                                           std::chrono::milliseconds length,
                                                           const RecordEntry* there, QueueTime now) {
  if (!is_present(there, now.wall) || there->queue == nullptr) return std::nullopt;
  const auto& record = there->record;
  if (record.incarnation != lease.incarnation) return std::nullopt;
  if (!record.bound_to || record.bound_to->fence != lease.fence) return std::nullopt;
  const auto& entry = *there->queue;
  if (entry.state.place != QueuePlace::leased || has_lease_expired(entry, now)) return std::nullopt;
  const bool is_limited = entry.attempt_deadline != std::chrono::milliseconds::zero();
  const auto lasts = is_limited ? std::min(length, entry.attempt_deadline - now.leases) : length;
  Renewal renewal{.entry = entry, .lasts = lasts};
  renewal.entry.lease_deadline = now.leases + lasts;
  renewal.entry.state.lease_expires_at = now.wall + lasts;
  return renewal;
}

// Claims of one record.

/// Give the entry a lease by claim(), with a new fence; `entry` is as it is before that.
struct Claimable {
  QueueEntry entry;
};
/// The record is not claimable, and has this entry now; empty: unchanged, or in no queue.
struct Unclaimable {
  std::optional<QueueEntry> entry = std::nullopt;
};
using ClaimDecision = std::variant<Claimable, Unclaimable, NoRecord>;

/// `may_lease`: the queue and the record's limit key may have another lease, apart from one of this record.
[[nodiscard]] inline ClaimDecision decide_claim(const RecordEntry* there, bool may_lease, QueueTime now,
                                                std::uint64_t next) {
  if (!is_present(there, now.wall)) return NoRecord{};
  if (there->queue == nullptr) return Unclaimable{};
  auto entry = *there->queue;
  const bool expired = has_lease_expired(entry, now);
  if (expired) entry = expire_lease(std::move(entry), now.wall, next);
  const auto place = entry.state.place;
  if (place == QueuePlace::leased || has_left_queue(place)) return Unclaimable{};
  if (place != QueuePlace::exhausted && is_exhausted(entry.state, now.wall)) {
    return Unclaimable{exhaust(std::move(entry), next)};
  }
  if (place == QueuePlace::exhausted || !may_lease) {
    return expired ? Unclaimable{std::move(entry)} : Unclaimable{};
  }
  return Claimable{std::move(entry)};
}

// Ends of leases.

/// Store this entry, and the data of the request if there is an update. The outcome is Written with one,
/// LeaseEnded without.
struct EndOfLease {
  std::optional<Update> update;
  QueueEntry entry;
};
using EndDecision = std::variant<EndOfLease, NoRecord, VersionConflict, FenceRefused>;

/// The outcome of a refused end. Requires that it is refused.
[[nodiscard]] inline EndOutcome refusal_of(EndDecision decision) {
  return std::visit(
      []<class Why>(Why& why) -> EndOutcome {
        if constexpr (std::is_same_v<Why, EndOfLease>) {
          return NoRecord{};
        } else {
          return std::move(why);
        }
      },
      decision);
}

/// Where a record goes when its lease ends as requested.
[[nodiscard]] inline QueueEntry end_lease(QueueEntry entry, const EndLease& request, WallTime now,
                                          std::uint64_t next) {
  const auto place = entry.state.place;
  // A writer without a fence finished it meanwhile: the end of the lease does not bring it back.
  if (has_left_queue(place)) return entry;
  switch (request.end) {
    case LeaseEnd::finished:
      return request.max_dead ? die(std::move(entry), now) : leave_queue(std::move(entry));
    case LeaseEnd::given_back: {
      // A lease that has expired, and was removed, counted as a death: there is nothing to give back.
      if (place != QueuePlace::leased) return entry;
      --entry.state.attempts;
      if (entry.state.due_at > now) return moved_to(QueuePlace::delayed, std::move(entry));
      if (entry.sequence == 0) entry.sequence = next;  // it was claimed before it was due
      return moved_to(QueuePlace::ready, std::move(entry));
    }
    case LeaseEnd::retried:
      break;
  }
  if (place == QueuePlace::exhausted) return entry;
  entry.state.due_at = saturating_add(now, request.delay);
  if (request.delay == std::chrono::milliseconds::zero() || is_exhausted(entry.state, now)) {
    return moved_behind(std::move(entry), now, next);
  }
  entry.sequence = 0;  // it gets another when its delay is over
  return moved_to(QueuePlace::delayed, std::move(entry));
}

[[nodiscard]] inline EndDecision decide_end(const EndLease& request, const RecordEntry* there, WallTime now,
                                            std::uint64_t next) {
  if (!is_present(there, now) || there->queue == nullptr) return NoRecord{};
  if (!is_meant(there->record, request.incarnation)) return NoRecord{};
  auto expected = request.write ? std::optional(request.write->second) : request.expected;
  if (auto refusal = refuse_write(there->record, request.token, expected)) {
    return refused<EndDecision>(*std::move(refusal));
  }
  EndOfLease end{.update = std::nullopt, .entry = end_lease(*there->queue, request, now, next)};
  if (request.write) {
    end.update = Update{.version = there->record.version + 1,
                        .expires_at = request.write->first.expires_at(),
                        .bound_to = request.token};
  }
  return end;
}

// Wake-ups.

/// What a queue offers to workers.
struct QueueOffer {
  bool is_claimable = false;  ///< ClaimNext would find a record
  std::size_t ready = 0;
  std::optional<WallTime> next_due = std::nullopt;
};

/// Whether a change of the queue, which is not a claim, is a reason to wake a worker. One more delayed record
/// that is the next one counts too: the woken worker learns when to look again.
[[nodiscard]] inline bool wakes_worker(const QueueOffer& before, const QueueOffer& after) noexcept {
  if (after.is_claimable && (!before.is_claimable || after.ready > before.ready)) return true;
  return after.next_due && (!before.next_due || *after.next_due < *before.next_due);
}

}  // namespace holdfast::core
