#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/queue_decisions.hpp"

namespace holdfast::core {

/// The settings of a queue, and what its order says of it.
struct QueueHead {
  bool paused = false;
  std::optional<std::size_t> max_leased;
  std::size_t ready = 0, leased = 0, dead = 0;
  std::uint64_t next_sequence = 1;

  /// How many more records may be leased, at most `most`.
  [[nodiscard]] std::size_t room(std::size_t most) const noexcept {
    if (!max_leased) return most;
    return *max_leased > leased ? std::min(most, *max_leased - leased) : 0;
  }
};

/// The orders of one queue and its records, which QueueSteps changes. An engine provides one inside an atomic
/// step. Names are returned by value, because a change may delete what they are read from.
template <class Store>
concept QueueStore = requires(Store store, std::string_view task, const std::string& name, QueueEntry entry,
                              Update update, RecordData data, FencingToken token, ClaimTerms terms,
                              std::chrono::milliseconds lease_time, WallTime wall) {
  { store.head() } -> std::same_as<QueueHead>;
  // The first record by priority and sequence; the first lease that has expired by then, and the first
  // delay that is over by then, by time and then by name.
  { store.first_ready() } -> std::same_as<std::optional<std::string>>;
  { store.first_expired(lease_time) } -> std::same_as<std::optional<std::string>>;
  { store.first_due(wall) } -> std::same_as<std::optional<std::string>>;
  // The first lease whose process is known to have ended, if it was claimed with ends_with_process; and
  // whether a claim should look for one although it may find a ready record: not each, but again and again.
  { store.first_abandoned() } -> std::same_as<std::optional<std::string>>;
  { store.is_time_to_look_for_abandoned() } -> std::same_as<bool>;
  { store.next_deadline() } -> std::same_as<std::optional<std::chrono::milliseconds>>;
  { store.next_due() } -> std::same_as<std::optional<WallTime>>;
  { store.exhausted(std::size_t{}) } -> std::same_as<std::vector<std::string>>;
  // How many records with this limit key are leased, counted up to a number; the first parked one by
  // priority and sequence; the first dead letters by when they died and then by name.
  { store.leased_of(task, std::size_t{}) } -> std::same_as<std::size_t>;
  { store.first_parked(task) } -> std::same_as<std::optional<std::string>>;
  { store.dead(std::size_t{}) } -> std::same_as<std::vector<std::string>>;
  // The stored record, live or expired; false if there is none. Without its data where `head` says so.
  { *store.find(task) } -> std::convertible_to<const RecordEntry&>;
  { *store.find_head(task) } -> std::convertible_to<const RecordEntry&>;
  // Takes an expired record out of its queue. If that makes room, the first parked record of its key is
  // ready: so it is wherever an engine deletes a record.
  { store.forget(name) };
  { store.remove(name) };
  { store.set(name, std::move(entry)) };
  // The same for a lease that is granted.
  { store.grant(name, std::move(entry), terms) };
  // The same for a change that no watcher needs to know: a lease that was renewed, another sequence number.
  { store.prolong(name, std::move(entry)) };
  { store.bind(name, token) };
  // May move from the data.
  { store.write(name, std::move(update), data) };
  // The token of the next claim of this record.
  { store.next_token(name) } -> std::same_as<Result<FencingToken>>;
  { store.key_of(task) } -> std::same_as<RecordKey>;
};

/// Carries out the operations on one queue, in steps that an engine stores: all within one atomic step.
template <QueueStore Store>
class QueueSteps {
 public:
  QueueSteps(Store& store, QueueTime now) : store_(store), now_(now) {}

  /// `searched` as ClaimNext has it.
  [[nodiscard]] Result<ClaimedRecords> claim_next(const ClaimTerms& terms,
                                                  std::chrono::milliseconds searched = {}) {
    ClaimedRecords result;
    bool ends_early = expire_leases() == max_moves_per_claim;
    const bool has_looked = store_.is_time_to_look_for_abandoned();
    std::size_t abandoned = has_looked ? expire_abandoned() : 0;
    ends_early = promote_due() == max_moves_per_claim || ends_early;
    const auto head = store_.head();
    result.paused = head.paused;
    auto room = head.paused ? 0 : head.room(claim_limit(terms.limit));
    if (!ends_early || !is_behind(searched)) {
      auto failed = claim_ready(terms, room, result.claimed);
      if (!failed && result.claimed.empty() && !has_looked) {
        abandoned = expire_abandoned();
        if (abandoned > 0) {
          room = head.paused ? 0 : store_.head().room(claim_limit(terms.limit));
          failed = claim_ready(terms, room, result.claimed);
        }
      }
      if (failed && result.claimed.empty()) return *failed;
    }
    add_exhausted(result.exhausted);
    if (result.claimed.empty() && !result.paused) {
      result.look_again_after = look_again(room > 0, ends_early || abandoned == max_moves_per_claim);
    }
    return result;
  }

  [[nodiscard]] Result<ClaimOutcome> claim(const ClaimRecord& request) {
    const std::string task(request.key.task());
    auto there = store_.find(task);
    if (!there || !is_present(&*there, now_.wall)) return ClaimOutcome(NoRecord{});
    if (!may_lease(*there)) {
      expire_leases();  // they count until a claim removes them
      there = store_.find(task);
    }
    if (there && (is_leased(*there) || !may_lease(*there)) && expire_abandoned()) there = store_.find(task);
    const auto next = store_.head().next_sequence;
    auto decision = decide_claim(there ? &*there : nullptr, there && may_lease(*there), now_, next);
    if (std::holds_alternative<NoRecord>(decision)) return ClaimOutcome(NoRecord{});
    if (auto* refused = std::get_if<Unclaimable>(&decision)) {
      NotClaimable answer{.record = there->record};
      if (refused->entry) {
        const auto old = there->queue;
        relocate(task, *old, *std::move(refused->entry));
        if (const auto moved = store_.find_head(task)) answer.record.queue = moved->record.queue;
      }
      return ClaimOutcome(std::move(answer));
    }
    auto token = store_.next_token(task);
    if (!token) return token.error();
    auto& entry = std::get<Claimable>(decision).entry;
    return ClaimOutcome(lease(task, there->record, std::move(entry), request.terms, *std::move(token)));
  }

  [[nodiscard]] RenewLeases::Outcome renew(const RenewLeases& request) {
    RenewLeases::Outcome renewed;
    renewed.reserve(request.leases.size());
    for (const auto& lease : request.leases) {
      const auto there = store_.find_head(lease.task);
      auto renewal = decide_renewal(lease, request.lease, there ? &*there : nullptr, now_);
      if (!renewal) {
        renewed.emplace_back();
        continue;
      }
      renewed.push_back({.is_held = true, .lasts = renewal->lasts, .version = there->record.version});
      store_.prolong(lease.task, std::move(renewal->entry));
    }
    return renewed;
  }

  [[nodiscard]] EndedLease end(EndLease& request) {
    const std::string task(request.key.task());
    EndedLease ended{.end = LeaseEnded{}};
    {
      const auto there = store_.find_head(task);
      auto decision = decide_end(request, there ? &*there : nullptr, now_.wall, store_.head().next_sequence);
      auto* accepted = std::get_if<EndOfLease>(&decision);
      if (accepted == nullptr) return {.end = refusal_of(std::move(decision))};
      if (accepted->update) {
        ended.end = Written{.version = accepted->update->version, .incarnation = there->record.incarnation};
        store_.write(task, *std::move(accepted->update), request.write->first);
      }
      const auto old = there->queue;
      const bool dies = request.max_dead && !has_left_queue(old->state.place) &&
                        has_left_queue(accepted->entry.state.place);
      relocate(task, *old, std::move(accepted->entry));
      if (dies) remove_dead(task, *request.max_dead);
    }
    if (request.then) {
      // The end is accepted, whatever becomes of the claim.
      auto next = claim_next(*request.then);
      ended.next = next ? *std::move(next) : ClaimedRecords{};
    }
    return ended;
  }

  /// A record leaves the queue by a write: as a dead letter, one of at most so many, if a number is given.
  void leave(const std::string& task, const QueueEntry& old, std::optional<std::size_t> max_dead) {
    const bool has_left = has_left_queue(old.state.place);
    relocate(task, old, max_dead ? die(old, now_.wall) : leave_queue(old));
    if (max_dead && !has_left) remove_dead(task, *max_dead);
  }

  /// The entry of a record that is created: admit() with what is leased.
  [[nodiscard]] QueueEntry admitted(QueueEntry entry) {
    if (!has_limit_key(entry)) return entry;
    const auto leased = leased_of(entry);
    return admit(std::move(entry), leased);
  }

  /// What the queue offers to workers: for wakes_worker().
  [[nodiscard]] QueueOffer offer() {
    const auto head = store_.head();
    return {.is_claimable = !head.paused && head.ready > 0 && head.room(1) > 0,
            .ready = head.ready,
            .next_due = store_.next_due()};
  }

 private:
  /// Counts no further than the limit of the entry needs.
  [[nodiscard]] std::size_t leased_of(const QueueEntry& entry) {
    const auto& terms = entry.state.terms;
    return store_.leased_of(terms.limit_key, std::size_t{terms.limit} + 1);
  }
  [[nodiscard]] static bool is_leased(const RecordEntry& there) noexcept {
    return there.queue != nullptr && there.queue->state.place == QueuePlace::leased;
  }
  [[nodiscard]] bool may_lease(const RecordEntry& there) {
    if (store_.head().room(1) == 0) return false;
    return there.queue == nullptr || !has_limit_key(*there.queue) ||
           !is_over_limit(*there.queue, leased_of(*there.queue));
  }

  /// Moves a record from its old place to another, or under its key instead of among the ready ones, and lets
  /// a parked one go if that makes room.
  void relocate(const std::string& task, const QueueEntry& old, QueueEntry entry) {
    const auto from = old.state.place;
    const bool stays = from == QueuePlace::ready && entry.sequence == old.sequence;
    if (entry.state.place == QueuePlace::ready && !stays && has_limit_key(entry)) {
      const auto leased = leased_of(entry);
      entry = admit(std::move(entry), leased - (from == QueuePlace::leased ? 1 : 0));
    }
    const bool is_room = has_limit_key(entry) && makes_room(from, entry.state.place);
    const auto limit_key = is_room ? entry.state.terms.limit_key : std::string();
    store_.set(task, std::move(entry));
    if (is_room) release(limit_key);
  }
  /// The first parked record of this key is ready, at its old place.
  void release(const std::string& limit_key) {
    const auto task = store_.first_parked(limit_key);
    if (!task) return;
    const auto parked = store_.find_head(*task);
    if (parked) store_.set(*task, moved_to(QueuePlace::ready, *parked->queue));
  }
  /// Removes the first dead letters beyond `most`, but not this one.
  void remove_dead(const std::string& task, std::size_t most) {
    const auto there = store_.head().dead;
    if (most == 0 || there <= most) return;
    auto too_many = std::min(there - most, max_dead_removed);
    for (const auto& dead : store_.dead(too_many + 1)) {
      if (dead == task || too_many == 0) continue;
      store_.remove(dead);
      --too_many;
    }
  }

  /// Moves the first record of an order, at most max_moves_per_claim times. `first()` is its name, if there
  /// is one; `moved(entry, next sequence number)` its new entry.
  /// Returns how many times it did; after max_moves_per_claim there may be more.
  template <class First, class Moved>
  std::size_t move_each(First first, Moved moved) {
    for (std::size_t moves = 0; moves < max_moves_per_claim; ++moves) {
      const std::optional<std::string> task = first();
      if (!task) return moves;
      const auto there = store_.find_head(*task);
      if (!there || !is_present(&*there, now_.wall)) {
        store_.forget(*task);
      } else {
        const auto old = there->queue;
        relocate(*task, *old, moved(*old, store_.head().next_sequence));
      }
    }
    return max_moves_per_claim;
  }
  template <class First>
  std::size_t expire_each(First first) {
    return move_each(first, [this](const QueueEntry& entry, std::uint64_t next) {
      return expire_lease(entry, now_.wall, next);
    });
  }
  std::size_t expire_leases() {
    return expire_each([this] { return store_.first_expired(now_.leases); });
  }
  std::size_t expire_abandoned() {
    return expire_each([this] { return store_.first_abandoned(); });
  }
  std::size_t promote_due() {
    return move_each(
        [this] { return store_.first_due(now_.wall); },
        [this](const QueueEntry& entry, std::uint64_t next) { return promote(entry, now_.wall, next); });
  }
  /// Whether a record that may come before the ready ones has still to be moved: its time had come before the
  /// caller began to search. There is a finite number of these, and each request moves some, so a search
  /// ends.
  [[nodiscard]] bool is_behind(std::chrono::milliseconds searched) {
    return store_.first_expired(now_.leases - searched) || store_.first_due(now_.wall - searched);
  }

  /// Claims at most `room` of the ready records. Returns an error if there is no fence for another claim.
  [[nodiscard]] std::optional<Error> claim_ready(const ClaimTerms& terms, std::size_t room,
                                                 std::vector<ClaimedRecord>& claimed) {
    for (std::size_t passed = 0; claimed.size() < room && passed < max_moves_per_claim;) {
      const auto task = store_.first_ready();
      if (!task) break;
      const auto there = store_.find(*task);
      if (!there || !is_present(&*there, now_.wall)) {
        store_.forget(*task);
        ++passed;
      } else if (is_exhausted(there->queue->state, now_.wall)) {
        const auto old = there->queue;
        relocate(*task, *old, exhaust(*old, store_.head().next_sequence));
        ++passed;
      } else if (has_limit_key(*there->queue) && is_over_limit(*there->queue, leased_of(*there->queue))) {
        store_.set(*task, moved_to(QueuePlace::parked, *there->queue));
        ++passed;
      } else {
        auto token = store_.next_token(*task);
        if (!token) return token.error();
        claimed.push_back(lease(*task, there->record, *there->queue, terms, *std::move(token)));
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] ClaimedRecord lease(const std::string& task, StoredRecord record, QueueEntry entry,
                                    const ClaimTerms& terms, FencingToken token) {
    entry = core::claim(std::move(entry), terms, now_);
    record.queue = std::make_shared<const QueueState>(entry.state);
    store_.bind(task, token);
    store_.grant(task, entry, terms);
    // Records of the key with a lower limit may have let only one go at a time.
    if (has_limit_key(entry) && !is_over_limit(entry, leased_of(entry))) release(entry.state.terms.limit_key);
    record.bound_to = std::move(token);
    return {.key = store_.key_of(task), .record = std::move(record)};
  }

  void add_exhausted(std::vector<ClaimedRecord>& exhausted) {
    auto tasks = store_.exhausted(max_exhausted_records + 1);
    // Those that the caller cannot end, because it cannot read them, must not hide the others.
    const bool are_more = tasks.size() > max_exhausted_records;
    if (are_more) tasks.pop_back();
    for (const auto& task : tasks) {
      const auto there = store_.find(task);
      if (there && is_present(&*there, now_.wall)) {
        exhausted.push_back({.key = store_.key_of(task), .record = there->record});
        if (are_more) store_.prolong(task, exhaust(*there->queue, store_.head().next_sequence));
      } else {
        store_.forget(task);
      }
    }
  }

  /// `has_room`: another lease is allowed, so a ready record remains only because a claim is bounded.
  /// `ended_early`: so may one that has still to be moved.
  [[nodiscard]] std::optional<std::chrono::milliseconds> look_again(bool has_room, bool ended_early) {
    std::optional<std::chrono::milliseconds> after;
    const auto consider = [&after](std::chrono::milliseconds at) {
      at = std::max(at, std::chrono::milliseconds::zero());
      after = after ? std::min(*after, at) : at;
    };
    if (ended_early || (has_room && store_.first_ready())) consider({});
    if (const auto due = store_.next_due()) consider(*due - now_.wall);
    if (const auto deadline = store_.next_deadline()) consider(*deadline - now_.leases);
    return after;
  }

  Store& store_;
  const QueueTime now_;
};

}  // namespace holdfast::core
