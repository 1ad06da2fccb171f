#include <algorithm>
#include <array>
#include <atomic>
#include <holdfast/memory.hpp>
#include <mutex>
#include <unordered_map>

#include "core/digest.hpp"
#include "core/liveness.hpp"
#include "core/lock_decisions.hpp"
#include "core/lock_id_hash.hpp"
#include "os/clock.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "runtime/operation.hpp"
#include "waiting/wake_table.hpp"

namespace holdfast {
namespace {

/// Stores locks in shards by key. A second set of shards, by id, is an index that may be out of date: the
/// lease itself decides. A thread that holds the mutex of a key shard may lock that of an id shard, never the
/// reverse.
class MemoryLockBackend final : public LockBackend {
 public:
  MemoryLockBackend(const MemoryOptions& options, std::shared_ptr<Log> log)
      : options_(options), log_(std::move(log)), last_fence_(options.last_fence) {
    // 88 random bits in 15 characters: a std::string of that length needs no allocation, and each grant
    // carries a copy.
    std::array<unsigned char, 11> bytes{};
    os::random_bytes(bytes);
    authority_ = core::base64url(bytes);
  }

  ~MemoryLockBackend() override {
    // In a forked child, a thread of the parent may have been changing this: leak it untouched.
    if (!process_.is_current()) static_cast<void>(shards_.release());
  }

  [[nodiscard]] Capabilities capabilities() const noexcept override { return memory_capabilities; }
  [[nodiscard]] std::string authority() const override { return authority_; }

  void submit(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    if (auto refused = core::refuse_replicas(request.min_replicas)) return done(*std::move(refused));
    operate(request, stop, done, [&] { return acquire_now(request); });
  }
  void submit(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    operate(request, stop, done, [&] { return release_now(request); });
  }
  void submit(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    if (auto refused = core::refuse_replicas(request.min_replicas)) return done(*std::move(refused));
    operate(request, stop, done, [&] { return extend_now(request); });
  }
  void submit(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    operate(request, stop, done, [&] { return find_live(request.key.str()).has_value(); });
  }
  void submit(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    operate(request, stop, done, [&] { return lookup_now(request); });
  }
  void submit(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    operate(request, stop, done, [&] { return list_now(request); });
  }

  void submit(WaitersRequest request, std::stop_token stop, Done<WaiterCounts> done) override {
    if (auto refused = core::refuse_too_many(request)) return done(*std::move(refused));
    operate(request, stop, done, [&] {
      WaiterCounts counts;
      for (const auto& key : request.keys) counts.push_back(wakes_->count_waiters(key.str()));
      return counts;
    });
  }

  void submit(WatchRequest request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    done(wakes_->watch(request.key.str(), waiting::Wakes::one));
  }
  void submit(FollowLocks, std::stop_token, Done<std::unique_ptr<ChangeFeed>> done) override {
    done(wakes_->follow());
  }

 private:
  struct StoredLock {
    core::StoredLease lease;
    Fence fence;
    std::chrono::milliseconds acquired_at;
    std::shared_ptr<const LockHolder> holder;
  };
  using LocksByKey = std::unordered_map<std::string, StoredLock, os::TextHash, std::equal_to<>>;

  using KeysById = std::unordered_map<LockId, std::string, core::LockIdHash>;

  /// A table that reuses the memory of one removed entry for the next: acquiring and releasing one lock
  /// repeatedly allocates nothing.
  template <class Map>
  struct Table {
    using Key = typename Map::key_type;
    using Value = typename Map::mapped_type;
    Map entries;

    /// Requires that the key is absent.
    typename Map::iterator add(const Key& key, Value value) {
      if (!spare_) return entries.emplace(key, std::move(value)).first;
      spare_.key() = key;
      spare_.mapped() = std::move(value);
      return entries.insert(std::move(spare_)).position;
    }
    void remove(typename Map::const_iterator at) { spare_ = entries.extract(at); }

   private:
    typename Map::node_type spare_;
  };
  struct KeyShard {
    std::mutex mutex;
    Table<LocksByKey> locks;
    std::size_t sweep_at = 64;
  };
  struct IdShard {
    std::mutex mutex;
    Table<KeysById> keys;
  };
  static constexpr std::size_t shard_count = 64;
  struct Shards {
    std::array<KeyShard, shard_count> by_key;
    std::array<IdShard, shard_count> by_id;
  };

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  template <class Request, class T, class Body>
  void operate(const Request& request, const std::stop_token& stop, Done<T>& done, const Body& body) {
    const auto refused = refuse_early(request.deadline, stop);
    done(refused ? Result<T>(*refused) : Result<T>(body()));
  }

  [[nodiscard]] std::chrono::milliseconds now() const {
    const auto time = options_.clock != nullptr ? options_.clock(options_.clock_context) : clock_.now();
    return time.time_since_epoch();
  }

  KeyShard& key_shard(std::string_view key) { return shards_->by_key[hash_(key) % shard_count]; }
  IdShard& id_shard(const LockId& id) { return shards_->by_id[core::LockIdHash{}(id) % shard_count]; }

  static std::optional<core::StoredLease> lease_at(const KeyShard& shard, LocksByKey::const_iterator at) {
    return at == shard.locks.entries.end() ? std::nullopt : std::optional(at->second.lease);
  }

  /// The key this id was last granted; its lease may have expired.
  std::optional<std::string> key_of(const LockId& id) {
    auto& shard = id_shard(id);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.keys.entries.find(id);
    return at == shard.keys.entries.end() ? std::nullopt : std::optional(at->second);
  }

  void forget_id(const LockId& id) {
    auto& shard = id_shard(id);
    const std::lock_guard lock(shard.mutex);
    if (const auto at = shard.keys.entries.find(id); at != shard.keys.entries.end()) shard.keys.remove(at);
  }

  void erase(KeyShard& shard, LocksByKey::iterator at) {
    forget_id(at->second.lease.id);
    shard.locks.remove(at);
  }

  /// Deletes the expired locks of a shard each time it has doubled: keys that are used once do not
  /// accumulate, and the cost per acquire stays constant.
  void sweep(KeyShard& shard, std::chrono::milliseconds now) {
    auto& locks = shard.locks.entries;
    if (locks.size() < shard.sweep_at) return;
    for (auto at = locks.begin(); at != locks.end();) {
      const auto next = std::next(at);
      if (core::is_due(at->second.lease.expires_at, now)) erase(shard, at);
      at = next;
    }
    shard.sweep_at = std::max<std::size_t>(64, locks.size() * 2);
  }

  Result<AcquireOutcome> acquire_now(const AcquireRequest& request) {
    for (;;) {
      auto outcome = try_acquire(request);
      if (!outcome) {
        if (holds_another_key(request)) {
          return core::id_holds_another_key().about(request.key.str(), request.id.str());
        }
        continue;  // the id's other lease has expired, and its entry is deleted now
      }
      if (const auto* granted = *outcome ? std::get_if<Granted>(&**outcome) : nullptr;
          granted != nullptr && log_) {
        if (auto warning = core::high_fence_warning(granted->fence, request.key)) {
          log_->write(LogLevel::warning, *std::move(warning));
        }
      }
      return *std::move(outcome);
    }
  }

  /// Whether the id holds a key other than the requested one; if not, deletes the id's entry.
  bool holds_another_key(const AcquireRequest& request) {
    const auto key = key_of(request.id);
    if (!key || *key == request.key.str()) return false;
    auto& shard = key_shard(*key);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.locks.entries.find(*key);
    const auto lease = lease_at(shard, at);
    const auto decision = core::decide_acquire(request, std::nullopt, lease, now());
    if (std::holds_alternative<core::IdInUse>(decision)) return true;
    if (lease && lease->id == request.id) {
      erase(shard, at);
    } else {
      forget_id(request.id);
    }
    return false;
  }

  /// Empty if the id's entry names another key: see holds_another_key.
  std::optional<Result<AcquireOutcome>> try_acquire(const AcquireRequest& request) {
    auto& shard = key_shard(request.key.str());
    const std::lock_guard lock(shard.mutex);
    const auto granted_at = now();
    sweep(shard, granted_at);
    const auto at = shard.locks.entries.find(request.key.str());
    const auto decision = core::decide_acquire(request, lease_at(shard, at), std::nullopt, granted_at);
    if (const auto* refused = std::get_if<Refused>(&decision)) {
      return Refused{.free_in = refused->free_in, .holder = at->second.holder};
    }
    if (std::holds_alternative<core::GrantAgain>(decision)) return granted(at->second);
    if (at != shard.locks.entries.end()) erase(shard, at);

    auto& ids = id_shard(request.id);
    const std::lock_guard id_lock(ids.mutex);
    auto entry = ids.keys.entries.find(request.id);
    if (entry == ids.keys.entries.end()) {
      entry = ids.keys.add(request.id, request.key.str());
    } else if (entry->second != request.key.str()) {
      return std::nullopt;
    }
    const auto fence = core::next_fence(last_fence_.fetch_add(1));
    if (!fence) {
      last_fence_.fetch_sub(1);
      ids.keys.remove(entry);
      return fence.error().about(request.key.str(), request.id.str());
    }
    const auto expires_at = std::get<core::Grant>(decision).expires_at;
    const auto added =
        shard.locks.add(request.key.str(), {.lease = {.id = request.id, .expires_at = expires_at},
                                            .fence = *fence,
                                            .acquired_at = granted_at,
                                            .holder = request.holder});
    return granted(added->second);
  }

  Granted granted(const StoredLock& lock) const {
    return {.fence = lock.fence, .expires_at = WallTime(lock.lease.expires_at), .authority = authority_};
  }

  /// Calls `change`, under the shard's mutex, with the shard and the position of the referenced lock, or the
  /// end. Does not call it if there is neither a key nor an index entry of the id.
  template <class F>
  void with_lock(const LockRef& ref, F&& change) {
    const auto indexed = ref.key ? std::nullopt : key_of(ref.id);
    if (!ref.key && !indexed) return;
    const auto& key = ref.key ? ref.key->str() : *indexed;
    auto& shard = key_shard(key);
    const std::lock_guard lock(shard.mutex);
    change(shard, shard.locks.entries.find(key));
  }

  Result<ReleaseOutcome> release_now(const ReleaseRequest& request) {
    core::ReleaseDecision decision = core::NotHeld{};
    std::string freed;
    with_lock(request.lock, [&](KeyShard& shard, LocksByKey::iterator at) {
      decision = core::decide_release(request, lease_at(shard, at), now());
      const auto* absent = std::get_if<core::NotHeld>(&decision);
      if (absent != nullptr && !absent->delete_lease) return;
      if (absent == nullptr) freed = at->first;
      erase(shard, at);
    });
    if (const auto* absent = std::get_if<core::NotHeld>(&decision)) {
      const core::ReleaseEvidence evidence{.authority = authority_, .counter = last_fence_.load()};
      return core::answer_absent_release(request, absent->why, evidence, BootClock::now());
    }
    wakes_->wake_one(freed);
    return Released{};
  }

  Result<ExtendOutcome> extend_now(const ExtendRequest& request) {
    core::ExtendDecision decision = core::NotHeld{};
    with_lock(request.lock, [&](KeyShard& shard, LocksByKey::iterator at) {
      decision = core::decide_extend(request, lease_at(shard, at), now());
      if (const auto* extend = std::get_if<core::Extend>(&decision)) {
        at->second.lease.expires_at = extend->expires_at;
        if (request.new_holder) at->second.holder = *request.new_holder;
      } else if (std::get<core::NotHeld>(decision).delete_lease) {
        erase(shard, at);
      }
    });
    if (const auto* absent = std::get_if<core::NotHeld>(&decision)) return absent->why;
    return Extended{.expires_at = WallTime(std::get<core::Extend>(decision).expires_at)};
  }

  std::optional<StoredLock> find_live(const std::string& key) {
    auto& shard = key_shard(key);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.locks.entries.find(key);
    if (!core::is_held(lease_at(shard, at), now())) return std::nullopt;
    return at->second;
  }

  static LockRecord record(const std::string& key, const StoredLock& lock) {
    return {.key = *LockKey::stored(key),
            .id = lock.lease.id,
            .fence = lock.fence,
            .acquired_at = WallTime(lock.acquired_at),
            .expires_at = WallTime(lock.lease.expires_at),
            .holder = lock.holder ? std::optional(*lock.holder) : std::nullopt};
  }

  Result<std::optional<LockRecord>> lookup_now(const LookupRequest& request) {
    const auto* id = std::get_if<LockId>(&request.what);
    const auto key = id != nullptr ? key_of(*id) : std::optional(std::get<LockKey>(request.what).str());
    const auto found = key ? find_live(*key) : std::nullopt;
    if (!found || (id != nullptr && found->lease.id != *id)) return std::optional<LockRecord>();
    return std::optional(record(*key, *found));
  }

  /// Pages run in key order, so the cursor is the last key seen.
  Result<LockPage> list_now(const ListRequest& request) {
    if (!request.cursor.empty() && !LockKey::parse(request.cursor)) {
      return Error(ErrorCode::InvalidArgument, "the cursor is not from this list; start without a cursor");
    }
    std::vector<std::pair<std::string, StoredLock>> found;
    for (auto& shard : shards_->by_key) {
      const std::lock_guard lock(shard.mutex);
      const auto time = now();
      for (const auto& [key, stored] : shard.locks.entries) {
        if (key > request.cursor && core::is_held(stored.lease, time)) found.emplace_back(key, stored);
      }
    }
    std::ranges::sort(found, {}, [](const auto& entry) -> const std::string& { return entry.first; });
    const auto limit = std::clamp<std::size_t>(request.limit, 1, max_list_limit);
    LockPage page;
    for (const auto& [key, stored] : found) {
      if (page.locks.size() == limit) {
        page.cursor = page.locks.back().key.str();
        break;
      }
      page.locks.push_back(record(key, stored));
    }
    return page;
  }

  const MemoryOptions options_;
  const std::shared_ptr<Log> log_;
  const os::ProcessIdentity process_;
  const os::WallClock clock_;
  const os::TextHash hash_;
  std::string authority_;
  std::atomic<std::uint64_t> last_fence_;
  std::unique_ptr<Shards> shards_ = std::make_unique<Shards>();
  const std::shared_ptr<waiting::WakeTable> wakes_ = waiting::WakeTable::in_process();
};

}  // namespace

std::shared_ptr<LockBackend> make_memory_lock_backend(const MemoryOptions& options,
                                                      std::shared_ptr<Log> log) {
  return std::make_shared<MemoryLockBackend>(options, std::move(log));
}

}  // namespace holdfast
