#include "support/calls.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/await.hpp"

namespace holdfast::test {
namespace {
std::optional<LockKey> maybe_key(const std::optional<std::string>& text) {
  return text ? std::optional(key(*text)) : std::nullopt;
}

/// A holder's record of its grants, so that its releases carry a proof. If answers are lost, the outcome of a
/// release without a proof may be unknown.
class Holder {
 public:
  void granted(const LockId& id, std::string_view key, const Granted& granted, BootTime until) {
    const std::lock_guard lock(mutex_);
    auto& held = grants_[std::string(id.str())];
    // The first answer again does not change the lease.
    if (held && held->proof.fence == granted.fence) until = std::max(until, held->proof.until);
    held = Held{std::string(key), {.fence = granted.fence, .authority = granted.authority, .until = until}};
  }
  void extended(const LockId& id, BootTime until) {
    const std::lock_guard lock(mutex_);
    const auto at = grants_.find(std::string(id.str()));
    if (at != grants_.end() && at->second) at->second->proof.until = until;
  }
  /// Nothing if the id was not granted this key.
  std::optional<HolderProof> proof(const LockId& id, const std::optional<std::string>& key) {
    const std::lock_guard lock(mutex_);
    const auto at = grants_.find(std::string(id.str()));
    if (at == grants_.end() || !at->second || (key && LockKey::parse(*key)->str() != at->second->key)) {
      return std::nullopt;
    }
    auto proof = at->second->proof;
    proof.lost = BootClock::now() >= proof.until;
    return proof;
  }
  void released(const LockId& id) {
    const std::lock_guard lock(mutex_);
    grants_.erase(std::string(id.str()));
  }

 private:
  struct Held {
    std::string key;
    HolderProof proof;
  };
  std::mutex mutex_;
  std::map<std::string, std::optional<Held>> grants_;
};
Holder& holder() {
  static Holder one;
  return one;
}
}  // namespace

LockKey key(std::string_view text) {
  return LockKey::parse(text).value_or_throw();
}
Ttl ttl(milliseconds length) {
  return Ttl::of(length).value_or_throw();
}

namespace {

/// Tests may name a lock by its id alone, which an engine need support only for locks that outlive their
/// process. A file supports it in any case, and would be synced with each call.
Durability durability_on(const LockBackend& backend) {
  return backend.capabilities().blocks ? Durability::process : Durability::machine;
}

}  // namespace

Result<AcquireOutcome> try_acquire(LockBackend& backend, AcquireRequest request, std::stop_token stop) {
  const BootTime sent = BootClock::now();
  auto result = call(backend, request, std::move(stop));
  const auto* granted = result ? std::get_if<Granted>(&*result) : nullptr;
  if (granted != nullptr)
    holder().granted(request.id, request.key.str(), *granted, sent + request.ttl.length());
  return result;
}

Result<AcquireOutcome> try_acquire(LockBackend& backend, const LockId& id, std::string_view name,
                                   milliseconds length, std::shared_ptr<const LockHolder> label) {
  return try_acquire(backend, {.id = id,
                               .key = key(name),
                               .ttl = ttl(length),
                               .durability = durability_on(backend),
                               .holder = std::move(label)});
}

std::optional<Granted> acquire(LockBackend& backend, const LockId& id, std::string_view name,
                               milliseconds length) {
  const auto outcome = try_acquire(backend, id, name, length).value_or_throw();
  const auto* granted = std::get_if<Granted>(&outcome);
  return granted != nullptr ? std::optional(*granted) : std::nullopt;
}

Result<ReleaseOutcome> try_release(LockBackend& backend, ReleaseRequest request, std::stop_token stop) {
  return call(backend, std::move(request), std::move(stop));
}

std::optional<Absence> release(LockBackend& backend, const LockId& id, std::optional<std::string> name) {
  const auto proof = holder().proof(id, name);
  auto result = try_release(
      backend,
      {.lock = {.id = id, .key = maybe_key(name)}, .durability = Durability::process, .proof = proof});
  // The outcome is unknown to an engine that gets only the id; but the test knows that this id holds no lock.
  if (!result && !proof && result.error().code() == ErrorCode::NetworkTimeout) return Absence::not_found;
  const auto outcome = std::move(result).value_or_throw();
  const auto* absence = std::get_if<Absence>(&outcome);
  if (absence == nullptr) holder().released(id);
  return absence != nullptr ? std::optional(*absence) : std::nullopt;
}

Result<ExtendOutcome> try_extend(LockBackend& backend, ExtendRequest request, std::stop_token stop) {
  return call(backend, std::move(request), std::move(stop));
}

std::variant<Extended, Absence> extend(LockBackend& backend, const LockId& id,
                                       std::optional<std::string> name, milliseconds length,
                                       std::optional<std::shared_ptr<const LockHolder>> new_holder) {
  const BootTime sent = BootClock::now();
  auto outcome = try_extend(backend, {.lock = {.id = id, .key = maybe_key(name)},
                                      .ttl = ttl(length),
                                      .durability = durability_on(backend),
                                      .new_holder = std::move(new_holder)})
                     .value_or_throw();
  if (std::holds_alternative<Extended>(outcome)) holder().extended(id, sent + length);
  return outcome;
}

bool is_locked(LockBackend& backend, std::string_view name) {
  return call(backend, IsLockedRequest{.key = key(name)}).value_or_throw();
}

std::optional<LockRecord> lookup(LockBackend& backend, std::string_view name) {
  return call(backend, LookupRequest{.what = key(name)}).value_or_throw();
}

std::optional<LockRecord> lookup(LockBackend& backend, const LockId& id) {
  return call(backend, LookupRequest{.what = id}).value_or_throw();
}

Result<LockPage> list(LockBackend& backend, ListRequest request) {
  return call(backend, std::move(request));
}

WaiterCounts count_waiters(LockBackend& backend, std::vector<LockKey> keys) {
  return call(backend, WaitersRequest{.keys = std::move(keys)}).value_or_throw();
}

std::unique_ptr<Watch> watch_of(LockBackend& backend, const LockKey& key) {
  return call(backend, WatchRequest{.key = key}).value_or_throw();
}

bool wait_until(Watch& watch, BootTime deadline, std::stop_token stop) {
  return runtime::await(watch, deadline, deadline, std::move(stop));
}

}  // namespace holdfast::test
