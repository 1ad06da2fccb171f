#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <holdfast/memory.hpp>
#include <mutex>
#include <unordered_map>

#include "core/fence_limits.hpp"
#include "core/liveness.hpp"
#include "core/lock_id_hash.hpp"
#include "core/repeated_release.hpp"
#include "core/uuid.hpp"
#include "sys/operation.hpp"
#include "sys/process.hpp"
#include "sys/random.hpp"
#include "sys/text_hash.hpp"
#include "sys/wake_table.hpp"
#include "sys/wall_clock.hpp"

namespace holdfast {
namespace {

using std::chrono::milliseconds;

/// Locks live in shards by key; a second set of shards by id only says where to look, and the record's own
/// id decides. A thread that holds a key shard's mutex may take an id shard's, never the reverse.
class MemoryLockBackend final : public LockBackend {
 public:
  MemoryLockBackend(const MemoryOptions& options, std::shared_ptr<Log> log)
      : options_(options), log_(std::move(log)), last_fence_(options.last_fence) {
    std::array<unsigned char, 16> bytes{};
    sys::random_bytes(bytes);
    authority_ = core::uuid_v4(bytes);
  }

  ~MemoryLockBackend() override {
    // In a forked child another thread may have been changing this when it was copied: leave it alone.
    if (!home_.is_here()) static_cast<void>(shards_.release());
  }

  [[nodiscard]] Capabilities capabilities() const noexcept override { return memory_capabilities; }
  [[nodiscard]] std::string authority() const override { return authority_; }

  void acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    auto result = refuse_early(request.deadline, stop);
    done(result ? Result<AcquireOutcome>(*result) : acquire_now(request));
  }

  void release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    auto result = refuse_early(request.deadline, stop);
    done(result ? Result<ReleaseOutcome>(*result) : release_now(request));
  }

  void extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    auto result = refuse_early(request.deadline, stop);
    done(result ? Result<ExtendOutcome>(*result) : extend_now(request));
  }

  void is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    auto result = refuse_early(request.deadline, stop);
    done(result ? Result<bool>(*result) : find(request.key.str()).has_value());
  }

  void lookup(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    auto result = refuse_early(request.deadline, stop);
    done(result ? Result<std::optional<LockRecord>>(*result) : lookup_now(request));
  }

  void list(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    auto result = refuse_early(request.deadline, stop);
    done(result ? Result<LockPage>(*result) : list_now(request));
  }

  [[nodiscard]] std::unique_ptr<Watch> watch(const LockKey& key, BootTime, std::stop_token) override {
    return wakes_->watch(key.str(), sys::Wakes::one);
  }

 private:
  struct Held {
    LockId id;
    Fence fence;
    std::int64_t acquired_at_ms;
    std::int64_t expires_at_ms;
  };
  using LocksByKey = std::unordered_map<std::string, Held, sys::TextHash, std::equal_to<>>;

  struct KeyShard {
    std::mutex mutex;
    LocksByKey locks;
    std::size_t sweep_at = 64;
  };
  struct IdShard {
    std::mutex mutex;
    std::unordered_map<LockId, std::string, core::LockIdHash> keys;
  };
  static constexpr std::size_t shard_count = 64;
  struct Shards {
    std::array<KeyShard, shard_count> by_key;
    std::array<IdShard, shard_count> by_id;
  };

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!home_.is_here()) return sys::used_after_fork();
    return sys::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] std::int64_t now_ms() const {
    return options_.clock != nullptr ? options_.clock(options_.clock_context) : clock_.now_ms();
  }

  KeyShard& key_shard(std::string_view key) { return shards_->by_key[hash_(key) % shard_count]; }
  IdShard& id_shard(const LockId& id) { return shards_->by_id[core::LockIdHash{}(id) % shard_count]; }

  /// The key this id was last granted, live or not.
  std::optional<std::string> key_of(const LockId& id) {
    auto& shard = id_shard(id);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.keys.find(id);
    return at == shard.keys.end() ? std::nullopt : std::optional(at->second);
  }

  void forget_id(const LockId& id) {
    auto& shard = id_shard(id);
    const std::lock_guard lock(shard.mutex);
    shard.keys.erase(id);
  }

  void erase(LocksByKey& locks, LocksByKey::iterator at) {
    forget_id(at->second.id);
    locks.erase(at);
  }

  /// Drops expired locks of the shard each time it has doubled, so that keys nobody asks for again do not
  /// pile up and the cost stays constant per acquire.
  void sweep(KeyShard& shard, std::int64_t now) {
    if (shard.locks.size() < shard.sweep_at) return;
    for (auto at = shard.locks.begin(); at != shard.locks.end();) {
      const auto next = std::next(at);
      if (core::is_due(at->second.expires_at_ms, now)) erase(shard.locks, at);
      at = next;
    }
    shard.sweep_at = std::max<std::size_t>(64, shard.locks.size() * 2);
  }

  Result<AcquireOutcome> acquire_now(const AcquireRequest& request) {
    for (;;) {
      auto granted = grant(request);
      if (!granted) {
        if (holds_another_key(request)) {
          return Error(ErrorCode::InvalidArgument, "this lock id already holds another key")
              .about(request.key.str(), request.id.str());
        }
        continue;  // what the id held has expired, and is forgotten now
      }
      if (const auto* grant = *granted ? std::get_if<Granted>(&**granted) : nullptr;
          grant != nullptr && log_) {
        if (auto warning = core::high_fence_warning(grant->fence, request.key)) {
          log_->write(LogLevel::warning, *std::move(warning));
        }
      }
      return *std::move(granted);
    }
  }

  /// Whether the id holds a key other than the requested one; forgets the id's entry if it is stale.
  bool holds_another_key(const AcquireRequest& request) {
    const auto key = key_of(request.id);
    if (!key || *key == request.key.str()) return false;
    auto& shard = key_shard(*key);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.locks.find(*key);
    if (at == shard.locks.end() || at->second.id != request.id) {
      forget_id(request.id);
      return false;
    }
    if (!core::is_due(at->second.expires_at_ms, now_ms())) return true;
    erase(shard.locks, at);
    return false;
  }

  /// Nothing if the id is entered under another key: see holds_another_key.
  std::optional<Result<AcquireOutcome>> grant(const AcquireRequest& request) {
    auto& shard = key_shard(request.key.str());
    const std::lock_guard lock(shard.mutex);
    const auto now = now_ms();
    sweep(shard, now);
    const auto at = shard.locks.find(request.key.str());
    if (at != shard.locks.end()) {
      const Held& held = at->second;
      if (!core::is_due(held.expires_at_ms, now)) {
        if (held.id == request.id) {
          return Granted{.fence = held.fence, .expires_at_ms = held.expires_at_ms, .authority = authority_};
        }
        return Refused{milliseconds(held.expires_at_ms - now)};
      }
      erase(shard.locks, at);
    }

    auto& ids = id_shard(request.id);
    const std::lock_guard id_lock(ids.mutex);
    const auto [entry, is_new] = ids.keys.try_emplace(request.id, request.key.str());
    if (!is_new && entry->second != request.key.str()) return std::nullopt;
    const auto fence = core::next_fence(last_fence_.fetch_add(1));
    if (!fence) {
      last_fence_.fetch_sub(1);
      ids.keys.erase(entry);
      return fence.error().about(request.key.str(), request.id.str());
    }
    const Held held{request.id, *fence, now, now + request.ttl.ms()};
    shard.locks.emplace(request.key.str(), held);
    return Granted{.fence = held.fence, .expires_at_ms = held.expires_at_ms, .authority = authority_};
  }

  /// Runs `change` on the live lock that this reference names, under its shard's mutex.
  template <class F>
  std::optional<Absence> with_held(const LockRef& ref, F&& change) {
    const auto key = ref.key ? std::optional(ref.key->str()) : key_of(ref.id);
    if (!key) return Absence::not_found;
    auto& shard = key_shard(*key);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.locks.find(*key);
    if (at == shard.locks.end()) return Absence::not_found;
    const auto now = now_ms();
    if (core::is_due(at->second.expires_at_ms, now)) {
      const bool mine = at->second.id == ref.id;
      erase(shard.locks, at);
      return mine ? Absence::expired : Absence::not_found;
    }
    if (at->second.id != ref.id) return Absence::other_owner;
    change(shard, at, now);
    return std::nullopt;
  }

  Result<ReleaseOutcome> release_now(const ReleaseRequest& request) {
    std::string key;
    const auto absence = with_held(request.lock, [&](KeyShard& shard, LocksByKey::iterator at, std::int64_t) {
      key = at->first;
      erase(shard.locks, at);
    });
    if (absence && request.asked_before && *absence != Absence::expired) {
      const core::ReleaseEvidence evidence{.authority = authority_, .counter = last_fence_.load()};
      const auto verdict = core::judge_repeated_release(request.proof, evidence, BootClock::now());
      if (verdict == core::RepeatedRelease::done) return Released{};
      if (verdict == core::RepeatedRelease::unknown) return core::release_is_unknown();
    }
    if (absence) return *absence;
    wakes_->wake_one(key);
    return Released{};
  }

  Result<ExtendOutcome> extend_now(const ExtendRequest& request) {
    Extended extended;
    const auto absence = with_held(request.lock, [&](KeyShard&, LocksByKey::iterator at, std::int64_t now) {
      extended.expires_at_ms = at->second.expires_at_ms = now + request.ttl.ms();
    });
    if (absence) return *absence;
    return extended;
  }

  std::optional<Held> find(const std::string& key) {
    auto& shard = key_shard(key);
    const std::lock_guard lock(shard.mutex);
    const auto at = shard.locks.find(key);
    if (at == shard.locks.end() || core::is_due(at->second.expires_at_ms, now_ms())) return std::nullopt;
    return at->second;
  }

  static LockRecord record(const std::string& key, const Held& held) {
    return {.key = *LockKey::stored(key),
            .id = held.id,
            .fence = held.fence,
            .acquired_at_ms = held.acquired_at_ms,
            .expires_at_ms = held.expires_at_ms};
  }

  Result<std::optional<LockRecord>> lookup_now(const LookupRequest& request) {
    const auto* id = std::get_if<LockId>(&request.what);
    const auto key = id != nullptr ? key_of(*id) : std::optional(std::get<LockKey>(request.what).str());
    const auto held = key ? find(*key) : std::nullopt;
    if (!held || (id != nullptr && held->id != *id)) return std::optional<LockRecord>();
    return std::optional(record(*key, *held));
  }

  /// Pages run in key order, so the cursor is the last key seen.
  Result<LockPage> list_now(const ListRequest& request) {
    if (!request.cursor.empty() && !LockKey::parse(request.cursor)) {
      return Error(ErrorCode::InvalidArgument, "this cursor is not from a page of this list");
    }
    std::vector<std::pair<std::string, Held>> found;
    for (auto& shard : shards_->by_key) {
      const std::lock_guard lock(shard.mutex);
      const auto now = now_ms();
      for (const auto& [key, held] : shard.locks) {
        if (key > request.cursor && !core::is_due(held.expires_at_ms, now)) found.emplace_back(key, held);
      }
    }
    std::ranges::sort(found, {}, [](const auto& entry) -> const std::string& { return entry.first; });
    const auto limit = std::clamp<std::size_t>(request.limit, 1, max_list_limit);
    LockPage page;
    for (const auto& [key, held] : found) {
      if (page.locks.size() == limit) {
        page.cursor = page.locks.back().key.str();
        break;
      }
      page.locks.push_back(record(key, held));
    }
    return page;
  }

  const MemoryOptions options_;
  const std::shared_ptr<Log> log_;
  const sys::Birthplace home_;
  const sys::WallClock clock_;
  const sys::TextHash hash_;
  std::string authority_;
  std::atomic<std::uint64_t> last_fence_;
  std::unique_ptr<Shards> shards_ = std::make_unique<Shards>();
  const std::shared_ptr<sys::WakeTable> wakes_ = sys::WakeTable::in_process();
};

}  // namespace

std::shared_ptr<LockBackend> make_memory_lock_backend(const MemoryOptions& options,
                                                      std::shared_ptr<Log> log) {
  return std::make_shared<MemoryLockBackend>(options, std::move(log));
}

}  // namespace holdfast
