#include "locks/operations.hpp"

#include <algorithm>

#include "locks/acquire_loop.hpp"
#include "locks/held_lock.hpp"
#include "locks/wait_for_lock.hpp"

namespace holdfast::locks {
namespace {

LockKey checked_key(std::string_view key) {
  return LockKey::parse(key).value_or_throw();
}
LockId checked_id(std::string_view id) {
  return LockId::parse(id).value_or_throw();
}

bool is_control(unsigned char byte) {
  return byte < 0x20 || byte == 0x7F;
}

Op<std::optional<LockRecord>> look_up(Flow flow, Runtime runtime, LookupRequest request,
                                      std::stop_token stop) {
  const auto& backend = runtime->backend;
  co_return co_await flow.step<std::optional<LockRecord>>(backend, stop, request.deadline, [&](auto done) {
    backend->lookup(std::move(request), std::move(stop), std::move(done));
  });
}

Op<ReleaseOutcome> release(Flow flow, Runtime runtime, ReleaseRequest request, std::stop_token stop) {
  const auto& backend = runtime->backend;
  co_return co_await flow.step<ReleaseOutcome>(backend, stop, request.deadline, [&](auto done) {
    backend->release(std::move(request), std::move(stop), std::move(done));
  });
}

Op<ExtendOutcome> extend(Flow flow, Runtime runtime, ExtendRequest request, std::stop_token stop) {
  const auto& backend = runtime->backend;
  co_return co_await flow.step<ExtendOutcome>(backend, stop, request.deadline, [&](auto done) {
    backend->extend(std::move(request), std::move(stop), std::move(done));
  });
}

Guard guarded(const Runtime& runtime, HeldLock::Grant grant, const LockOptions& options) {
  return LockRuntime::guard(HeldLock::start(runtime, std::move(grant), options));
}

}  // namespace

Op<Guard> lock(Flow flow, Runtime runtime, std::string key, LockOptions options, std::stop_token stop,
               std::optional<CounterLifetime> counter_lifetime) {
  const auto policy = AcquirePolicy::from(options).value_or_throw();
  WantedLock wanted{
      .key = checked_key(key), .durability = Durability::process, .counter_lifetime = counter_lifetime};
  auto waiting = wait_for_lock(flow, runtime, std::move(wanted), policy, std::move(stop));
  auto grant = co_await std::move(waiting);
  co_return guarded(runtime, std::move(grant).value_or_throw(), options);
}

Op<std::optional<Guard>> try_lock(Flow flow, Runtime runtime, std::string key, LockOptions options,
                                  std::stop_token stop) {
  const auto policy = AcquirePolicy::once(options).value_or_throw();
  WantedLock wanted{.key = checked_key(key), .durability = Durability::process};
  auto waiting = wait_for_lock(flow, runtime, std::move(wanted), policy, std::move(stop));
  auto grant = co_await std::move(waiting);
  if (!grant && grant.error().code() == ErrorCode::AcquisitionTimeout) co_return std::nullopt;
  co_return std::optional(guarded(runtime, std::move(grant).value_or_throw(), options));
}

Op<std::optional<Guard>> adopt(Flow flow, Runtime runtime, DetachedLock lock, LockOptions options,
                               std::stop_token stop) {
  (void)AcquirePolicy::from(options).value_or_throw();
  auto context = sys::CallersContext::of(runtime->observer.get()).context;
  const BootTime sent = BootClock::now();
  ExtendRequest request{
      .lock = {.id = lock.id, .key = lock.key}, .ttl = lock.ttl, .durability = Durability::process};
  auto extending = extend(flow, runtime, std::move(request), std::move(stop));
  const auto answer = (co_await std::move(extending)).value_or_throw();
  const auto* extended = std::get_if<Extended>(&answer);
  if (extended == nullptr) co_return std::nullopt;
  HeldLock::Grant grant{.key = lock.key,
                        .id = lock.id,
                        .fence = lock.fence,
                        .authority = lock.authority.empty() ? runtime->backend->authority() : lock.authority,
                        .expires_at_ms = extended->expires_at_ms,
                        .ttl = lock.ttl,
                        .sent = sent,
                        .acquire_may_be_repeated = lock.acquire_may_be_repeated,
                        .context = std::move(context),
                        .adopted = true};
  co_return std::optional(guarded(runtime, std::move(grant), options));
}

Op<DetachedLock> acquire(Flow flow, Runtime runtime, std::string key, LockOptions options,
                         std::stop_token stop) {
  auto policy = AcquirePolicy::from(options).value_or_throw();
  policy.must_prove = false;
  WantedLock wanted{.key = checked_key(key), .durability = Durability::machine};
  auto waiting = wait_for_lock(flow, runtime, std::move(wanted), policy, std::move(stop));
  auto grant = (co_await std::move(waiting)).value_or_throw();
  co_return DetachedLock{.key = std::move(grant.key),
                         .id = grant.id,
                         .ttl = grant.ttl,
                         .fence = grant.fence,
                         .expires_at_ms = grant.expires_at_ms,
                         .authority = std::move(grant.authority),
                         .acquire_may_be_repeated = grant.acquire_may_be_repeated};
}

Op<bool> release(Flow flow, Runtime runtime, std::string lock_id, std::stop_token stop) {
  ReleaseRequest request{.lock = {.id = checked_id(lock_id), .key = {}}};
  auto releasing = release(flow, std::move(runtime), std::move(request), std::move(stop));
  const auto outcome = (co_await std::move(releasing)).value_or_throw();
  co_return std::holds_alternative<Released>(outcome);
}

Op<std::optional<std::int64_t>> extend(Flow flow, Runtime runtime, std::string lock_id,
                                       std::chrono::milliseconds ttl, std::stop_token stop) {
  ExtendRequest request{.lock = {.id = checked_id(lock_id), .key = {}}, .ttl = Ttl::of(ttl).value_or_throw()};
  auto extending = extend(flow, std::move(runtime), std::move(request), std::move(stop));
  const auto outcome = (co_await std::move(extending)).value_or_throw();
  const auto* extended = std::get_if<Extended>(&outcome);
  co_return extended != nullptr ? std::optional(extended->expires_at_ms) : std::nullopt;
}

Op<bool> is_locked(Flow flow, Runtime runtime, std::string key, std::stop_token stop) {
  const auto& backend = runtime->backend;
  IsLockedRequest request{.key = checked_key(key)};
  co_return co_await flow.step<bool>(backend, stop, request.deadline, [&](auto done) {
    backend->is_locked(std::move(request), std::move(stop), std::move(done));
  });
}

Op<std::optional<LockRecord>> get_by_key(Flow flow, Runtime runtime, std::string key, std::stop_token stop) {
  LookupRequest request{.what = checked_key(key)};
  auto looking = look_up(flow, std::move(runtime), std::move(request), std::move(stop));
  co_return co_await std::move(looking);
}

Op<std::optional<LockRecord>> get_by_id(Flow flow, Runtime runtime, std::string lock_id,
                                        std::stop_token stop) {
  LookupRequest request{.what = checked_id(lock_id)};
  auto looking = look_up(flow, std::move(runtime), std::move(request), std::move(stop));
  co_return co_await std::move(looking);
}

Op<std::optional<LockInfo>> sanitised(Op<std::optional<LockRecord>> raw) {
  const auto record = (co_await std::move(raw)).value_or_throw();
  co_return record ? std::optional(holdfast::sanitised(*record)) : std::nullopt;
}

Op<bool> owns(Flow flow, Runtime runtime, std::string key, std::string lock_id, std::stop_token stop) {
  const auto id = checked_id(lock_id);
  auto looking = get_by_key(flow, std::move(runtime), std::move(key), std::move(stop));
  const auto record = (co_await std::move(looking)).value_or_throw();
  co_return record && record->id == id;
}

Op<LockPage> list(Flow flow, Runtime runtime, ListRequest request, std::stop_token stop) {
  const auto& backend = runtime->backend;
  co_return co_await flow.step<LockPage>(backend, stop, request.deadline, [&](auto done) {
    backend->list(std::move(request), std::move(stop), std::move(done));
  });
}

Op<std::optional<LockInfo>> break_lock(Flow flow, Runtime runtime, std::string key, std::string reason,
                                       std::optional<Fence> held_with, std::stop_token stop) {
  if (reason.empty()) throw Error(ErrorCode::InvalidArgument, "say why the lock is broken");
  // In a log, a second line could pass for a message of its own.
  if (std::ranges::any_of(reason, is_control)) {
    throw Error(ErrorCode::InvalidArgument,
                "the reason must be one line of text, without control characters");
  }
  auto looking = get_by_key(flow, runtime, std::move(key), stop);
  const auto record = (co_await std::move(looking)).value_or_throw();
  if (!record || record->fence != held_with.value_or(record->fence)) co_return std::nullopt;
  // By its id: a lock that another has taken since is not the one that was to be broken.
  ReleaseRequest request{.lock = {.id = record->id, .key = record->key}, .broken_because = reason};
  auto releasing = release(flow, runtime, std::move(request), std::move(stop));
  const auto outcome = (co_await std::move(releasing)).value_or_throw();
  if (!std::holds_alternative<Released>(outcome)) co_return std::nullopt;
  auto info = holdfast::sanitised(*record);
  if (runtime->log) {
    runtime->log->write(LogLevel::warning, "the lock with the key hash " + info.key_hash +
                                               " was taken from its holder: " + reason);
  }
  co_return info;
}

}  // namespace holdfast::locks
