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

#include "core/liveness.hpp"
#include "core/record_decisions.hpp"
#include "core/record_request.hpp"
#include "os/clock.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "runtime/operation.hpp"
#include "waiting/wake_table.hpp"

namespace holdfast {
namespace {

using core::RecordEntry;

/// Records of some owners. Not thread-safe. The names in its indexes are views of the keys of its maps, whose
/// nodes do not move.
class RecordTable {
 public:
  /// The record, live or expired; null if there is none.
  RecordEntry* find(const RecordKey& key) {
    const auto owner = owners_.find(key.owner());
    if (owner == owners_.end()) return nullptr;
    const auto at = owner->second.records.find(key.task());
    return at == owner->second.records.end() ? nullptr : &at->second;
  }

  /// The number of this owner's live records. A result below `limit` may include expired ones: they are
  /// deleted, oldest expiry first, only if the limit would be reached. So the cost does not depend on the
  /// live ones.
  std::size_t count(std::string_view owner, std::size_t limit, WallTime now) {
    if (size_of(owner) >= limit) remove_expired(now);
    return size_of(owner);
  }

  /// Replaces the key's record, if there is one.
  void insert(const RecordKey& key, RecordEntry entry, WallTime now) {
    sweep_if_grown(now);
    erase(key);
    const auto owner = owners_.try_emplace(std::string(key.owner())).first;
    const auto at = owner->second.records.emplace(std::string(key.task()), std::move(entry)).first;
    owner->second.order.emplace(at->second.created_at, at->first);
    if (at->second.expires_at) expiries_.emplace(*at->second.expires_at, owner->first, at->first);
    ++size_;
  }

  /// Requires that the record is stored. Its position in the list stays.
  void set_expiry(const RecordKey& key, std::optional<WallTime> expires_at) {
    const auto owner = owners_.find(key.owner());
    const auto at = owner->second.records.find(key.task());
    if (at->second.expires_at == expires_at) return;
    unindex_expiry(owner->first, at->first, at->second);
    at->second.expires_at = expires_at;
    if (expires_at) expiries_.emplace(*expires_at, owner->first, at->first);
  }

  void erase(const RecordKey& key) { erase(key.owner(), key.task()); }

  std::size_t remove_expired(WallTime now) {
    std::size_t removed = 0;
    while (!expiries_.empty() && core::is_due(std::get<0>(*expiries_.begin()), now)) {
      const auto [when, owner, task] = *expiries_.begin();
      erase(owner, task);
      ++removed;
    }
    return removed;
  }

  RecordPage page(std::string_view owner_name, const ListRecords& request, WallTime now) const {
    RecordPage page;
    const auto owner = owners_.find(owner_name);
    if (owner == owners_.end()) return page;
    const auto& order = owner->second.order;
    const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
    std::size_t bytes = 0;
    /// False once the page is full.
    const auto add = [&](const OrderKey& place) {
      const auto& entry = owner->second.records.find(place.second)->second;
      if (!core::is_present(&entry, now)) return true;
      bytes += entry.record.data.size();
      if (page.records.size() == limit || (!page.records.empty() && bytes > max_record_page_bytes)) {
        const auto& last = page.records.back();
        page.next = ListPosition{.created_at = last.created_at, .task = std::string(last.key.task())};
        return false;
      }
      page.records.push_back({.key = *RecordKey::of(owner_name, place.second),
                              .record = entry.record,
                              .created_at = entry.created_at});
      return true;
    };
    const auto after = request.after ? std::optional(OrderKey(request.after->created_at, request.after->task))
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

  /// Adds owners to the page, by name, after `after`, until the page is full. True if there are more.
  bool add_owners(const std::optional<std::string>& after, std::size_t limit, OwnerPage& page) const {
    for (auto at = after ? owners_.upper_bound(*after) : owners_.begin(); at != owners_.end(); ++at) {
      if (page.owners.size() == limit) return true;
      page.owners.push_back(at->first);
    }
    return false;
  }

 private:
  using OrderKey = std::pair<WallTime, std::string_view>;  // created_at, task: the order of a list
  struct Owner {
    std::unordered_map<std::string, RecordEntry, os::TextHash, std::equal_to<>> records;
    std::set<OrderKey> order;
  };

  std::size_t size_of(std::string_view owner) const {
    const auto at = owners_.find(owner);
    return at == owners_.end() ? 0 : at->second.records.size();
  }

  void unindex_expiry(std::string_view owner, std::string_view task, const RecordEntry& entry) {
    if (entry.expires_at) expiries_.erase({*entry.expires_at, owner, task});
  }

  void erase(std::string_view owner_name, std::string_view task) {
    const auto owner = owners_.find(owner_name);
    if (owner == owners_.end()) return;
    const auto at = owner->second.records.find(task);
    if (at == owner->second.records.end()) return;
    unindex_expiry(owner->first, at->first, at->second);
    owner->second.order.erase({at->second.created_at, at->first});
    owner->second.records.erase(at);
    if (owner->second.records.empty()) owners_.erase(owner);
    --size_;
  }

  /// Sweeps each time the table has doubled, so that records that are used once do not accumulate.
  void sweep_if_grown(WallTime now) {
    if (size_ < sweep_at_) return;
    remove_expired(now);
    sweep_at_ = std::max<std::size_t>(64, size_ * 2);
  }

  std::map<std::string, Owner, std::less<>> owners_;
  std::set<std::tuple<WallTime, std::string_view, std::string_view>> expiries_;  // when, owner, task
  std::size_t size_ = 0;
  std::size_t sweep_at_ = 64;
};

/// Carries out core's decision about one record.
class RecordChange {
 public:
  RecordChange(RecordTable& table, const RecordKey& key, WallTime now)
      : table_(table), key_(key), now_(now), there_(table.find(key)) {}

  [[nodiscard]] WallTime now() const noexcept { return now_; }
  [[nodiscard]] const RecordEntry* there() const noexcept { return there_; }
  [[nodiscard]] bool is_made() const noexcept { return is_made_; }
  /// For Insert and Update.
  void use(RecordData& data) noexcept { data_ = &data; }

  /// The number of the owner's live records: see RecordTable::count. May delete this record, if it has
  /// expired.
  std::size_t count(std::size_t limit) {
    const auto count = table_.count(key_.owner(), limit, now_);
    there_ = table_.find(key_);
    return count;
  }

  Written operator()(core::Insert insert) {
    auto& record = insert.entry.record;
    record.incarnation = os::new_incarnation();
    record.data = std::move(*data_).text();
    Written written{.version = record.version, .incarnation = record.incarnation};
    table_.insert(key_, std::move(insert.entry), now_);
    is_made_ = true;
    return written;
  }
  Written operator()(core::Update update) {
    table_.set_expiry(key_, update.expires_at);
    auto& record = there_->record;
    record.version = update.version;
    record.bound_to = std::move(update.bound_to);
    record.data = std::move(*data_).text();
    is_made_ = true;
    return {.version = record.version, .incarnation = record.incarnation};
  }
  StoredRecord operator()(core::SetGuard set) {
    there_->record.bound_to = std::move(set.bound_to);
    is_made_ = true;
    return there_->record;
  }
  Removed operator()(core::Remove) {
    table_.erase(key_);
    is_made_ = true;
    return {};
  }
  StoredRecord operator()(core::Unchanged) const { return there_->record; }
  AlreadyThere operator()(core::Existing) const { return {there_->record}; }

 private:
  RecordTable& table_;
  const RecordKey& key_;
  const WallTime now_;
  RecordEntry* there_;
  RecordData* data_ = nullptr;
  bool is_made_ = false;
};

/// An owner's records are all in one shard, so that one mutex guards a quota and a page.
class MemoryStorageBackend final : public StorageBackend {
 public:
  explicit MemoryStorageBackend(const MemoryOptions& options) : options_(options) {}

  ~MemoryStorageBackend() override {
    // In a forked child, a thread of the parent may have been changing this: leak it untouched.
    if (!process_.is_current()) static_cast<void>(shards_.release());
  }

  [[nodiscard]] std::string_view name() const noexcept override { return memory_capabilities.backend; }
  [[nodiscard]] bool blocks() const noexcept override { return memory_capabilities.blocks; }

  [[nodiscard]] WallTime now() const override {
    return options_.clock != nullptr ? options_.clock(options_.clock_context) : clock_.now();
  }

  void submit(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    done(operate<std::optional<StoredRecord>>(
        request, stop, [](RecordChange& change) { return core::decide_get(change.there(), change.now()); }));
  }

  void submit(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    if (auto refused = core::refuse_origin(request.origin)) {
      done(refused->about(request.key.str(), {}));
      return;
    }
    done(operate<CreateOutcome>(request, stop, [&](RecordChange& change) {
      const bool counts = core::needs_count(request, change.there(), change.now());
      const auto records = counts ? change.count(*request.quota) : 0;
      return core::decide_create(request, change.there(), records, change.now());
    }));
  }

  void submit(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    done(operate<PutOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_put(request, change.there(), change.now());
    }));
  }

  void submit(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    done(operate<RemoveOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_remove(request, change.there(), change.now());
    }));
  }

  void submit(BindRecord request, std::stop_token stop, Done<BindOutcome> done) override {
    done(operate<BindOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_bind(request, change.there(), change.now());
    }));
  }

  void submit(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    done(operate<RebindOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_rebind(request, change.there(), change.now());
    }));
  }

  void submit(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    done([&]() -> Result<RecordPage> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      auto owner = core::listed_owner(request.prefix);
      if (!owner) return owner.error();
      auto& shard = shard_of(*owner);
      const std::lock_guard lock(shard.mutex);
      return shard.records.page(*owner, request, now());
    }());
  }

  /// Sorted by shard, then by name: a page visits no more owners than it shows, and its last owner determines
  /// where the next page begins.
  void submit(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
    done([&]() -> Result<OwnerPage> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      auto after = core::owner_before(request.cursor);
      if (!after) return after.error();
      const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
      OwnerPage page;
      for (auto at = *after ? shard_number(**after) : 0; at < shards_->size(); ++at) {
        auto& shard = (*shards_)[at];
        const std::lock_guard lock(shard.mutex);
        if (shard.records.add_owners(std::exchange(*after, std::nullopt), limit, page)) {
          page.cursor = core::cursor_behind(page.owners.back());
          break;
        }
      }
      return page;
    }());
  }

  void submit(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    done([&]() -> Result<std::size_t> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      std::size_t removed = 0;
      for (auto& shard : *shards_) {
        const std::lock_guard lock(shard.mutex);
        removed += shard.records.remove_expired(now());
      }
      return removed;
    }());
  }

  void submit(WatchRecord request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    done(wakes_->watch(request.key.str(), waiting::Wakes::all));
  }
  void submit(FollowRecords, std::stop_token, Done<std::unique_ptr<ChangeFeed>> done) override {
    done(wakes_->follow());
  }

 private:
  struct Shard {
    std::mutex mutex;
    RecordTable records;
  };
  using Shards = std::array<Shard, 64>;

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] std::size_t shard_number(std::string_view owner) const {
    return hash_(owner) % shards_->size();
  }
  Shard& shard_of(std::string_view owner) { return (*shards_)[shard_number(owner)]; }

  /// Runs one operation on a record, under the mutex of its shard, and wakes the record's watchers if it was
  /// changed. `decide` returns a decision of core.
  template <class Outcome, class Request, class Decide>
  Result<Outcome> operate(Request& request, const std::stop_token& stop, Decide decide) {
    if (auto refused = refuse_early(request.deadline, stop)) return refused->about(request.key.str(), {});
    bool changed = false;
    auto result = [&]() -> Result<Outcome> {
      try {
        auto& shard = shard_of(request.key.owner());
        const std::lock_guard lock(shard.mutex);
        RecordChange change(shard.records, request.key, now());
        if constexpr (requires { request.data; }) change.use(request.data);
        auto outcome = core::carry_out<Outcome>(decide(change), change);
        changed = change.is_made();
        return outcome;
      } catch (const Error& error) {  // no random bytes for an incarnation
        return error.about(request.key.str(), {});
      }
    }();
    if (changed) wakes_->wake_all(request.key.str());
    return result;
  }

  const MemoryOptions options_;
  const os::ProcessIdentity process_;
  const os::WallClock clock_;
  const os::TextHash hash_;
  std::unique_ptr<Shards> shards_ = std::make_unique<Shards>();
  const std::shared_ptr<waiting::WakeTable> wakes_ = waiting::WakeTable::in_process();
};

}  // namespace

std::shared_ptr<StorageBackend> make_memory_storage_backend(const MemoryOptions& options) {
  return std::make_shared<MemoryStorageBackend>(options);
}

}  // namespace holdfast
