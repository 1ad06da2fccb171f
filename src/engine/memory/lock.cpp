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
    if (refuses(request.deadline, stop, done)) return;
    for (;;) {
      if (auto outcome = try_acquire(request)) {
        warn_of_high_fence(request.key, *outcome);
        return done(*std::move(outcome));
      }
      if (holds_another_key(request)) {
        return done(core::id_holds_another_key().about(request.key.str(), request.id.str()));
      }
      // The id's other lease has expired, and its entry is deleted now.
    }
  }
  void submit(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    operate(request, stop, done, [&] { return release_now(request); });
  }
  void submit(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    if (auto refused = core::refuse_replicas(request.min_replicas)) return done(*std::move(refused));
    operate(request, stop, done, [&] { return extend_now(request); });
  }
  void submit(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    operate(request, stop, done, [&] { return find_live(request.key).has_value(); });
  }
  void submit(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    operate(request, stop, done, [&] { return lookup_now(request); });
  }
  void submit(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    if (auto refused = core::refuse_too_many(request)) return done(*std::move(refused));
    operate(request, stop, done, [&] { return list_now(request); });
  }

  void submit(WaitersRequest request, std::stop_token stop, Done<WaiterCounts> done) override {
    if (auto refused = core::refuse_too_many(request)) return done(*std::move(refused));
    operate(request, stop, done, [&] {
      WaiterCounts counts;
      for (const auto& key : request.keys) counts.push_back(wakes_->count_waiters(place_of(key)));
      return counts;
    });
  }

  void submit(WatchRequest request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    done(wakes_->watch(place_of(request.key), waiting::Wakes::one));
  }
  /// A grant wakes nothing, so there is no feed of them.
  void submit(FollowLocks request, std::stop_token, Done<std::unique_ptr<ChangeFeed>> done) override {
    done(request.what == LockChanges::releases ? wakes_->follow() : nullptr);
  }

 private:
  /// The state of a key. It stays after a release, for the next grant, until the shard is swept.
  struct StoredLock {
    std::optional<core::StoredLease> lease;  ///< empty after a release
    Fence fence;
    std::chrono::milliseconds acquired_at;
    std::shared_ptr<const LockHolder> holder;
  };
  /// A key with its hash, which is computed once per operation.
  template <class Key>
  struct Hashed {
    std::size_t hash;
    Key key;
  };
  struct HashOf {
    using is_transparent = void;
    std::size_t operator()(const auto& hashed) const noexcept { return hashed.hash; }
  };
  struct SameKey {
    using is_transparent = void;
    bool operator()(const auto& one, const auto& other) const noexcept {
      return one.hash == other.hash && one.key == other.key;
    }
  };
  using LocksByKey = std::unordered_map<Hashed<LockKey>, StoredLock, HashOf, SameKey>;

  /// The keys by the ids of their grants. It reuses the memory of one removed entry for the next: acquiring
  /// and releasing one lock repeatedly allocates nothing.
  class KeysById {
   public:
    /// The id's key, which is `key` if it had none.
    const LockKey& add(const LockId& id, const LockKey& key) {
      if (!spare_) return keys_.emplace(id, key).first->second;
      spare_.key() = id;
      spare_.mapped() = key;
      auto added = keys_.insert(std::move(spare_));
      spare_ = std::move(added.node);
      return added.position->second;
    }
    void remove(const LockId& id) {
      if (auto removed = keys_.extract(id)) spare_ = std::move(removed);
    }
    [[nodiscard]] std::optional<LockKey> find(const LockId& id) const {
      const auto at = keys_.find(id);
      return at == keys_.end() ? std::nullopt : std::optional(at->second);
    }

   private:
    using Map = std::unordered_map<LockId, LockKey, core::LockIdHash>;
    Map keys_;
    Map::node_type spare_;
  };
  static constexpr std::size_t fewest_to_sweep = 16;
  struct KeyShard {
    std::mutex mutex;
    LocksByKey locks;
    std::size_t sweep_at = fewest_to_sweep;
  };
  struct IdShard {
    std::mutex mutex;
    KeysById keys;
  };
  static constexpr std::size_t shard_count = 64;
  struct Shards {
    std::array<KeyShard, shard_count> by_key;
    std::array<IdShard, shard_count> by_id;
  };

  /// Completes an operation that must not begin.
  template <class T>
  [[nodiscard]] bool refuses(BootTime deadline, const std::stop_token& stop, Done<T>& done) const {
    auto refused = process_.is_current() ? runtime::refuse_before_start(deadline, stop)
                                         : std::optional(os::used_after_fork());
    if (!refused) return false;
    done(*std::move(refused));
    return true;
  }

  template <class Request, class T, class Body>
  void operate(const Request& request, const std::stop_token& stop, Done<T>& done, const Body& body) {
    if (!refuses(request.deadline, stop, done)) done(body());
  }

  [[nodiscard]] std::chrono::milliseconds now() const {
    const auto time = options_.clock != nullptr ? options_.clock(options_.clock_context) : clock_.now();
    return time.time_since_epoch();
  }

  Hashed<const LockKey&> hashed(const LockKey& key) const noexcept {
    return {.hash = hash_(key.str()), .key = key};
  }
  waiting::WakeTable::Place place_of(const LockKey& key) const noexcept { return {.hash = hash_(key.str())}; }
  KeyShard& shard_of(const Hashed<const LockKey&>& key) { return shards_->by_key[key.hash % shard_count]; }
  IdShard& shard_of(const LockId& id) { return shards_->by_id[core::LockIdHash{}(id) % shard_count]; }

  /// The key this id was last granted; its lease may have expired.
  std::optional<LockKey> key_of(const LockId& id) {
    auto& shard = shard_of(id);
    const std::lock_guard lock(shard.mutex);
    return shard.keys.find(id);
  }
  /// The same for a reference; null if it names no key and the id had none. Points to `ref` or `found`.
  const LockKey* key_of(const LockRef& ref, std::optional<LockKey>& found) {
    if (ref.key) return &*ref.key;
    found = key_of(ref.id);
    return found ? &*found : nullptr;
  }

  void forget_id(const LockId& id) {
    auto& shard = shard_of(id);
    const std::lock_guard lock(shard.mutex);
    shard.keys.remove(id);
  }

  void end_lease(StoredLock& stored) {
    forget_id(stored.lease->id);
    stored.lease.reset();
    stored.holder.reset();
  }

  /// Deletes the released and expired locks of a shard each time it has doubled: keys that are used once do
  /// not accumulate, and the cost per acquire stays constant.
  void sweep(KeyShard& shard, std::chrono::milliseconds now) {
    if (shard.locks.size() < shard.sweep_at) return;
    std::erase_if(shard.locks, [&](const auto& entry) {
      const auto& lease = entry.second.lease;
      if (core::is_held(lease, now)) return false;
      if (lease) forget_id(lease->id);
      return true;
    });
    shard.sweep_at = std::max(fewest_to_sweep, shard.locks.size() * 2);
  }

  void warn_of_high_fence(const LockKey& key, const Result<AcquireOutcome>& outcome) const {
    const auto* const granted = log_ && outcome ? std::get_if<Granted>(&*outcome) : nullptr;
    if (granted == nullptr) return;
    if (auto warning = core::high_fence_warning(granted->fence, key)) {
      log_->write(LogLevel::warning, *std::move(warning));
    }
  }

  /// Whether the id holds a key other than the requested one; if not, deletes the id's entry.
  bool holds_another_key(const AcquireRequest& request) {
    const auto key = key_of(request.id);
    if (!key || *key == request.key) return false;
    bool in_use = false;
    with_lock(*key, [&](StoredLock* stored) {
      const auto lease = lease_of(stored);
      const auto decision = core::decide_acquire(request, std::nullopt, lease, now());
      in_use = std::holds_alternative<core::IdInUse>(decision);
      if (in_use) return;
      if (lease && lease->id == request.id) {
        end_lease(*stored);
      } else {
        forget_id(request.id);
      }
    });
    return in_use;
  }

  /// Empty if the id's entry names another key: see holds_another_key. A grant takes the request's label.
  std::optional<Result<AcquireOutcome>> try_acquire(AcquireRequest& request) {
    const auto key = hashed(request.key);
    auto& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const auto granted_at = now();
    sweep(shard, granted_at);
    auto at = shard.locks.find(key);
    if (at == shard.locks.end())
      at = shard.locks.emplace(Hashed<LockKey>{key.hash, key.key}, StoredLock{}).first;
    auto& stored = at->second;
    const auto decision = core::decide_acquire(request, stored.lease, std::nullopt, granted_at);
    if (const auto* refused = std::get_if<Refused>(&decision)) {
      return Refused{.free_in = refused->free_in, .holder = stored.holder};
    }
    if (std::holds_alternative<core::GrantAgain>(decision)) return granted(stored);
    if (stored.lease) end_lease(stored);

    auto& ids = shard_of(request.id);
    const std::lock_guard id_lock(ids.mutex);
    if (ids.keys.add(request.id, request.key) != request.key) return std::nullopt;
    const auto fence = core::next_fence(last_fence_.fetch_add(1));
    if (!fence) {
      last_fence_.fetch_sub(1);
      ids.keys.remove(request.id);
      return fence.error().about(request.key.str(), request.id.str());
    }
    const auto expires_at = std::get<core::Grant>(decision).expires_at;
    stored.lease.emplace(core::StoredLease{.id = request.id, .expires_at = expires_at});
    stored.fence = *fence;
    stored.acquired_at = granted_at;
    stored.holder = std::move(request.holder);
    return granted(stored);
  }

  Granted granted(const StoredLock& lock) const {
    return {.fence = lock.fence, .expires_at = WallTime(lock.lease->expires_at), .authority = authority_};
  }

  /// Calls `change` under the shard's mutex; with null if the key has no entry.
  template <class F>
  void with_lock(const LockKey& of, F&& change) {
    with_lock(hashed(of), std::forward<F>(change));
  }
  template <class F>
  void with_lock(const Hashed<const LockKey&>& key, F&& change) {
    auto& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.locks.find(key);
    change(at == shard.locks.end() ? nullptr : &at->second);
  }
  static std::optional<core::StoredLease> lease_of(const StoredLock* stored) {
    return stored != nullptr ? stored->lease : std::nullopt;
  }

  Result<ReleaseOutcome> release_now(const ReleaseRequest& request) {
    core::ReleaseDecision decision = core::NotHeld{};
    std::optional<LockKey> found;
    const LockKey* const named = key_of(request.lock, found);
    if (named != nullptr) {
      const auto key = hashed(*named);
      with_lock(key, [&](StoredLock* stored) {
        decision = core::decide_release(request, lease_of(stored), now());
        const auto* absent = std::get_if<core::NotHeld>(&decision);
        if (absent == nullptr || absent->delete_lease) end_lease(*stored);
      });
      if (std::holds_alternative<core::Release>(decision)) {
        wakes_->wake_one({.hash = key.hash});
        return Released{};
      }
    }
    const core::ReleaseEvidence evidence{.authority = authority_, .counter = last_fence_.load()};
    return core::answer_absent_release(request, std::get<core::NotHeld>(decision).why, evidence,
                                       BootClock::now());
  }

  Result<ExtendOutcome> extend_now(const ExtendRequest& request) {
    core::ExtendDecision decision = core::NotHeld{};
    std::optional<LockKey> found;
    if (const auto* const key = key_of(request.lock, found)) {
      with_lock(*key, [&](StoredLock* stored) {
        decision = core::decide_extend(request, lease_of(stored), now());
        if (const auto* extend = std::get_if<core::Extend>(&decision)) {
          stored->lease->expires_at = extend->expires_at;
          if (request.new_holder) stored->holder = *request.new_holder;
        } else if (std::get<core::NotHeld>(decision).delete_lease) {
          end_lease(*stored);
        }
      });
    }
    if (const auto* absent = std::get_if<core::NotHeld>(&decision)) return absent->why;
    return Extended{.expires_at = WallTime(std::get<core::Extend>(decision).expires_at)};
  }

  std::optional<StoredLock> find_live(const LockKey& key) {
    std::optional<StoredLock> live;
    with_lock(key, [&](StoredLock* stored) {
      if (core::is_held(lease_of(stored), now())) live = *stored;
    });
    return live;
  }

  static LockRecord record(const LockKey& key, const StoredLock& lock) {
    return {.key = key,
            .id = lock.lease->id,
            .fence = lock.fence,
            .acquired_at = WallTime(lock.acquired_at),
            .expires_at = WallTime(lock.lease->expires_at),
            .holder = lock.holder ? std::optional(*lock.holder) : std::nullopt};
  }

  Result<std::optional<LockRecord>> lookup_now(const LookupRequest& request) {
    const auto* id = std::get_if<LockId>(&request.what);
    const auto key = id != nullptr ? key_of(*id) : std::optional(std::get<LockKey>(request.what));
    const auto found = key ? find_live(*key) : std::nullopt;
    if (!found || (id != nullptr && found->lease->id != *id)) return std::optional<LockRecord>();
    return std::optional(record(*key, *found));
  }

  LockPage read_now(const std::vector<LockKey>& keys) {
    LockPage page;
    for (const auto& key : keys) {
      if (const auto found = find_live(key)) page.locks.push_back(record(key, *found));
    }
    return page;
  }

  /// Pages run in key order, so the cursor is the last key seen.
  Result<LockPage> list_now(const ListRequest& request) {
    if (!request.only.empty()) return read_now(request.only);
    if (!request.cursor.empty() && !LockKey::parse(request.cursor)) {
      return Error(ErrorCode::InvalidArgument, "the cursor is not from this list; start without a cursor");
    }
    std::vector<std::pair<LockKey, StoredLock>> found;
    for (auto& shard : shards_->by_key) {
      const std::lock_guard lock(shard.mutex);
      const auto time = now();
      for (const auto& [key, stored] : shard.locks) {
        if (key.key.str() > request.cursor && core::is_held(stored.lease, time)) {
          found.emplace_back(key.key, stored);
        }
      }
    }
    std::ranges::sort(found, {}, [](const auto& entry) -> const std::string& { return entry.first.str(); });
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
  SharedText authority_;
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
