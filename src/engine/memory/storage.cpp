#include <algorithm>
#include <array>
#include <holdfast/memory.hpp>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/fence_guard.hpp"
#include "core/liveness.hpp"
#include "core/record_request.hpp"
#include "sys/incarnation.hpp"
#include "sys/operation.hpp"
#include "sys/process.hpp"
#include "sys/text_hash.hpp"
#include "sys/wake_table.hpp"
#include "sys/wall_clock.hpp"

namespace holdfast {
namespace {

struct Kept {
  StoredRecord record;
  std::int64_t created_at_ms = 0;
  std::optional<std::int64_t> expires_at_ms;
};

/// Records of some owners. Not thread-safe. Names in the orders are views of the keys of the maps, whose
/// nodes do not move.
class Shelf {
 public:
  /// The record, if it is live.
  Kept* find(const RecordKey& key, std::int64_t now) {
    const auto owner = owners_.find(key.owner());
    if (owner == owners_.end()) return nullptr;
    const auto at = owner->second.records.find(key.task());
    return at == owner->second.records.end() || is_due(at->second, now) ? nullptr : &at->second;
  }

  /// Live records of this owner, as far as it matters for the limit: exact if it says at least `limit`.
  /// Expired ones are looked for only then, by their time, so what it costs does not depend on the live ones.
  std::size_t count(std::string_view owner, std::size_t limit, std::int64_t now) {
    if (size_of(owner) >= limit) remove_expired(now);
    return size_of(owner);
  }

  /// Requires that no live record has the key; an expired one makes room.
  void insert(const RecordKey& key, Kept kept, std::int64_t now) {
    sweep_if_due(now);
    erase(key);
    const auto owner = owners_.try_emplace(std::string(key.owner())).first;
    const auto at = owner->second.records.emplace(std::string(key.task()), std::move(kept)).first;
    owner->second.order.emplace(at->second.created_at_ms, at->first);
    if (at->second.expires_at_ms) expiries_.emplace(*at->second.expires_at_ms, owner->first, at->first);
    ++size_;
  }

  /// Requires that it is there. Its place in the list stays.
  void set_expiry(const RecordKey& key, std::optional<std::int64_t> expires_at_ms) {
    const auto owner = owners_.find(key.owner());
    const auto at = owner->second.records.find(key.task());
    if (at->second.expires_at_ms == expires_at_ms) return;
    forget_expiry(owner->first, at->first, at->second);
    at->second.expires_at_ms = expires_at_ms;
    if (expires_at_ms) expiries_.emplace(*expires_at_ms, owner->first, at->first);
  }

  void erase(const RecordKey& key) { erase(key.owner(), key.task()); }

  std::size_t remove_expired(std::int64_t now) {
    std::size_t removed = 0;
    while (!expiries_.empty() && core::is_due(std::get<0>(*expiries_.begin()), now)) {
      const auto [when, owner, task] = *expiries_.begin();
      erase(owner, task);
      ++removed;
    }
    return removed;
  }

  RecordPage page(std::string_view owner_name, const ListRecords& request, std::int64_t now) const {
    RecordPage page;
    const auto owner = owners_.find(owner_name);
    if (owner == owners_.end()) return page;
    const auto& order = owner->second.order;
    const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
    std::size_t bytes = 0;
    /// False once the page is full.
    const auto add = [&](const Place& place) {
      const auto& kept = owner->second.records.find(place.second)->second;
      if (is_due(kept, now)) return true;
      bytes += kept.record.data.size();
      if (page.records.size() == limit || (!page.records.empty() && bytes > max_record_page_bytes)) {
        const auto& last = page.records.back();
        page.next = ListPosition{.created_at_ms = last.created_at_ms, .task = std::string(last.key.task())};
        return false;
      }
      page.records.push_back({.key = *RecordKey::of(owner_name, place.second),
                              .record = kept.record,
                              .created_at_ms = kept.created_at_ms});
      return true;
    };
    const auto after = request.after ? std::optional(Place(request.after->created_at_ms, request.after->task))
                                     : std::nullopt;
    if (request.order == ListOrder::oldest_first) {
      for (auto at = after ? order.upper_bound(*after) : order.begin(); at != order.end() && add(*at); ++at) {
      }
    } else {
      auto at = std::make_reverse_iterator(after ? order.lower_bound(*after) : order.end());
      for (; at != order.rend() && add(*at); ++at) {
      }
    }
    return page;
  }

  /// Adds owners to the page, by name, behind that one if it is given, until the page is full. True if there
  /// are more.
  bool add_owners(const std::optional<std::string>& after, std::size_t limit, OwnerPage& page) const {
    for (auto at = after ? owners_.upper_bound(*after) : owners_.begin(); at != owners_.end(); ++at) {
      if (page.owners.size() == limit) return true;
      page.owners.push_back(at->first);
    }
    return false;
  }

 private:
  using Place = std::pair<std::int64_t, std::string_view>;  // created_at_ms, task: the order of a list
  struct Owner {
    std::unordered_map<std::string, Kept, sys::TextHash, std::equal_to<>> records;
    std::set<Place> order;
  };

  static bool is_due(const Kept& kept, std::int64_t now) {
    return kept.expires_at_ms && core::is_due(*kept.expires_at_ms, now);
  }

  std::size_t size_of(std::string_view owner) const {
    const auto at = owners_.find(owner);
    return at == owners_.end() ? 0 : at->second.records.size();
  }

  void forget_expiry(std::string_view owner, std::string_view task, const Kept& kept) {
    if (kept.expires_at_ms) expiries_.erase({*kept.expires_at_ms, owner, task});
  }

  void erase(std::string_view owner_name, std::string_view task) {
    const auto owner = owners_.find(owner_name);
    if (owner == owners_.end()) return;
    const auto at = owner->second.records.find(task);
    if (at == owner->second.records.end()) return;
    forget_expiry(owner->first, at->first, at->second);
    owner->second.order.erase({at->second.created_at_ms, at->first});
    owner->second.records.erase(at);
    if (owner->second.records.empty()) owners_.erase(owner);
    --size_;
  }

  /// Each time the shelf has doubled, so that records nobody asks for again do not pile up.
  void sweep_if_due(std::int64_t now) {
    if (size_ < sweep_at_) return;
    remove_expired(now);
    sweep_at_ = std::max<std::size_t>(64, size_ * 2);
  }

  std::map<std::string, Owner, std::less<>> owners_;
  std::set<std::tuple<std::int64_t, std::string_view, std::string_view>> expiries_;  // when, owner, task
  std::size_t size_ = 0;
  std::size_t sweep_at_ = 64;
};

/// An owner's records are all on one shelf, so that a quota and a page are decided under one mutex.
class MemoryStorageBackend final : public StorageBackend {
 public:
  explicit MemoryStorageBackend(const MemoryOptions& options) : options_(options) {}

  ~MemoryStorageBackend() override {
    // In a forked child another thread may have been changing this when it was copied: leave it alone.
    if (!home_.is_here()) static_cast<void>(shards_.release());
  }

  [[nodiscard]] std::string_view name() const noexcept override { return memory_capabilities.backend; }
  [[nodiscard]] bool blocks() const noexcept override { return memory_capabilities.blocks; }

  [[nodiscard]] std::int64_t now_ms() const override {
    return options_.clock != nullptr ? options_.clock(options_.clock_context) : clock_.now_ms();
  }

  void get(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    done(operate<std::optional<StoredRecord>>(
        request, stop, [&](Shelf& shelf, std::int64_t now, bool&) -> std::optional<StoredRecord> {
          const auto* kept = shelf.find(request.key, now);
          if (kept == nullptr) return std::nullopt;
          return kept->record;
        }));
  }

  void create(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    if (auto refused = core::refuse_origin(request.origin)) {
      done(refused->about(request.key.str(), {}));
      return;
    }
    done(operate<CreateOutcome>(
        request, stop, [&](Shelf& shelf, std::int64_t now, bool& changed) -> CreateOutcome {
          if (const auto* kept = shelf.find(request.key, now)) return AlreadyThere{kept->record};
          if (request.quota) {
            const auto records = shelf.count(request.key.owner(), *request.quota, now);
            if (records >= *request.quota) return QuotaReached{records};
          }
          changed = true;
          return add(shelf, request.key, std::move(request.data), std::move(request.fence),
                     std::move(request.origin), now);
        }));
  }

  void put(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    done(operate<PutOutcome>(request, stop, [&](Shelf& shelf, std::int64_t now, bool& changed) -> PutOutcome {
      auto* kept = shelf.find(request.key, now);
      if (kept == nullptr) {
        if (request.expected || (request.fence && !request.fenced_may_create)) return NoRecord{};
        changed = true;
        return add(shelf, request.key, std::move(request.data), std::move(request.fence), {}, now);
      }
      if (auto refusal = core::refuse_write(kept->record, request.fence, request.expected)) {
        return core::outcome_of<PutOutcome>(*std::move(refusal));
      }
      changed = true;
      shelf.set_expiry(request.key, request.data.expires_at_ms());
      kept->record.data = std::move(request.data).text();
      if (request.fence) kept->record.guarded_by = std::move(request.fence);
      return Written{.version = ++kept->record.version, .incarnation = kept->record.incarnation};
    }));
  }

  void remove(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    done(operate<RemoveOutcome>(
        request, stop, [&](Shelf& shelf, std::int64_t now, bool& changed) -> RemoveOutcome {
          const auto* kept = shelf.find(request.key, now);
          if (kept == nullptr) return NoRecord{};
          if (auto refusal = core::refuse_write(kept->record, request.fence, request.expected)) {
            return core::outcome_of<RemoveOutcome>(*std::move(refusal));
          }
          changed = true;
          shelf.erase(request.key);
          return Removed{};
        }));
  }

  void guard(GuardRecord request, std::stop_token stop, Done<GuardOutcome> done) override {
    done(operate<GuardOutcome>(
        request, stop, [&](Shelf& shelf, std::int64_t now, bool& changed) -> GuardOutcome {
          auto* kept = shelf.find(request.key, now);
          if (kept == nullptr || !core::is_meant(kept->record, request.incarnation)) return NoRecord{};
          if (auto refusal = core::refuse_fence(kept->record.guarded_by, request.fence)) {
            return core::outcome_of<GuardOutcome>(*std::move(refusal));
          }
          changed = kept->record.guarded_by != request.fence;
          kept->record.guarded_by = std::move(request.fence);
          return kept->record;
        }));
  }

  void rebind(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    done(operate<RebindOutcome>(request, stop,
                                [&](Shelf& shelf, std::int64_t now, bool& changed) -> RebindOutcome {
                                  auto* kept = shelf.find(request.key, now);
                                  if (kept == nullptr) return NoRecord{};
                                  if (core::is_left_alone(kept->record.guarded_by, request.from_authority)) {
                                    return kept->record;
                                  }
                                  changed = kept->record.guarded_by != request.fence;
                                  kept->record.guarded_by = std::move(request.fence);
                                  return kept->record;
                                }));
  }

  void list(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    done([&]() -> Result<RecordPage> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      auto owner = core::listed_owner(request.prefix);
      if (!owner) return owner.error();
      auto& shard = shard_of(*owner);
      const std::lock_guard lock(shard.mutex);
      return shard.shelf.page(*owner, request, now_ms());
    }());
  }

  /// Shelf by shelf, and by name on each: so a page looks at no more than it shows, and where it ends tells
  /// the shelf too.
  void list_owners(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
    done([&]() -> Result<OwnerPage> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      auto after = core::owner_before(request.cursor);
      if (!after) return after.error();
      const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
      OwnerPage page;
      for (auto at = *after ? shard_number(**after) : 0; at < shards_->size(); ++at) {
        auto& shard = (*shards_)[at];
        const std::lock_guard lock(shard.mutex);
        if (shard.shelf.add_owners(std::exchange(*after, std::nullopt), limit, page)) {
          page.cursor = core::cursor_behind(page.owners.back());
          break;
        }
      }
      return page;
    }());
  }

  void cleanup_expired(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    done([&]() -> Result<std::size_t> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      std::size_t removed = 0;
      for (auto& shard : *shards_) {
        const std::lock_guard lock(shard.mutex);
        removed += shard.shelf.remove_expired(now_ms());
      }
      return removed;
    }());
  }

  [[nodiscard]] std::unique_ptr<Watch> watch(const RecordKey& key, BootTime, std::stop_token) override {
    return wakes_->watch(key.str(), sys::Wakes::all);
  }

 private:
  struct Shard {
    std::mutex mutex;
    Shelf shelf;
  };
  using Shards = std::array<Shard, 64>;

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!home_.is_here()) return sys::used_after_fork();
    return sys::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] std::size_t shard_number(std::string_view owner) const {
    return hash_(owner) % shards_->size();
  }
  Shard& shard_of(std::string_view owner) { return (*shards_)[shard_number(owner)]; }

  /// Runs one operation on the record's shelf, under its mutex, and wakes the watchers of what it changed.
  template <class T, class Request, class Body>
  Result<T> operate(Request& request, const std::stop_token& stop, Body body) {
    if (auto refused = refuse_early(request.deadline, stop)) return refused->about(request.key.str(), {});
    bool changed = false;
    auto result = [&]() -> Result<T> {
      try {
        auto& shard = shard_of(request.key.owner());
        const std::lock_guard lock(shard.mutex);
        return body(shard.shelf, now_ms(), changed);
      } catch (const Error& error) {  // no random bytes for an incarnation
        return error.about(request.key.str(), {});
      }
    }();
    if (changed) wakes_->wake_all(request.key.str());
    return result;
  }

  static Written add(Shelf& shelf, const RecordKey& key, RecordData data, std::optional<FencingToken> fence,
                     std::string origin, std::int64_t now) {
    Written written{.version = 1, .incarnation = sys::new_incarnation()};
    Kept kept{.record = {.data = {},
                         .version = written.version,
                         .incarnation = written.incarnation,
                         .guarded_by = std::move(fence),
                         .origin = std::move(origin)},
              .created_at_ms = data.created_at_ms(),
              .expires_at_ms = data.expires_at_ms()};
    kept.record.data = std::move(data).text();
    shelf.insert(key, std::move(kept), now);
    return written;
  }

  const MemoryOptions options_;
  const sys::Birthplace home_;
  const sys::WallClock clock_;
  const sys::TextHash hash_;
  std::unique_ptr<Shards> shards_ = std::make_unique<Shards>();
  const std::shared_ptr<sys::WakeTable> wakes_ = sys::WakeTable::in_process();
};

}  // namespace

std::shared_ptr<StorageBackend> make_memory_storage_backend(const MemoryOptions& options) {
  return std::make_shared<MemoryStorageBackend>(options);
}

}  // namespace holdfast
