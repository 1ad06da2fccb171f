#include <holdfast/locks.hpp>

#include "locks/acquire_loop.hpp"
#include "locks/await.hpp"
#include "locks/held_lock.hpp"
#include "locks/runtime.hpp"
#include "locks/wait_for_lock.hpp"

namespace holdfast {
namespace {

LockKey checked_key(std::string_view key) {
  return LockKey::parse(key).value_or_throw();
}
LockId checked_id(std::string_view id) {
  return LockId::parse(id).value_or_throw();
}

std::optional<LockInfo> sanitised(const std::optional<LockRecord>& record) {
  return record ? std::optional(holdfast::sanitised(*record)) : std::nullopt;
}

}  // namespace

Locks::Locks(std::shared_ptr<LockBackend> backend, std::shared_ptr<Log> log)
    : runtime_(std::make_shared<LockRuntime>(std::move(backend), std::move(log))) {}

Guard Locks::lock(std::string_view key, const LockOptions& options, std::stop_token stop) {
  const auto policy = locks::AcquirePolicy::from(options).value_or_throw();
  auto grant = locks::wait_for_lock(*runtime_, checked_key(key), policy, Durability::process, stop);
  return Guard(HeldLock::start(runtime_, std::move(grant).value_or_throw(), options));
}

std::optional<Guard> Locks::try_lock(std::string_view key, const LockOptions& options, std::stop_token stop) {
  const auto policy = locks::AcquirePolicy::once(options).value_or_throw();
  auto grant = locks::wait_for_lock(*runtime_, checked_key(key), policy, Durability::process, stop);
  if (!grant && grant.error().code() == ErrorCode::AcquisitionTimeout) return std::nullopt;
  return Guard(HeldLock::start(runtime_, std::move(grant).value_or_throw(), options));
}

std::optional<Guard> Locks::adopt(const DetachedLock& lock, const LockOptions& options,
                                  std::stop_token stop) {
  (void)locks::AcquirePolicy::from(options).value_or_throw();
  const BootTime sent = BootClock::now();
  const auto answer =
      locks::extend(
          *runtime_->backend,
          {.lock = {.id = lock.id, .key = lock.key}, .ttl = lock.ttl, .durability = Durability::process},
          std::move(stop))
          .value_or_throw();
  const auto* extended = std::get_if<Extended>(&answer);
  if (extended == nullptr) return std::nullopt;
  return Guard(HeldLock::start(runtime_,
                               {.key = lock.key,
                                .id = lock.id,
                                .fence = lock.fence,
                                .expires_at_ms = extended->expires_at_ms,
                                .ttl = lock.ttl,
                                .sent = sent},
                               options));
}

DetachedLock Locks::acquire(std::string_view key, const LockOptions& options, std::stop_token stop) {
  auto policy = locks::AcquirePolicy::from(options).value_or_throw();
  policy.must_prove = false;
  auto grant =
      locks::wait_for_lock(*runtime_, checked_key(key), policy, Durability::machine, stop).value_or_throw();
  return {.key = std::move(grant.key),
          .id = grant.id,
          .ttl = grant.ttl,
          .fence = grant.fence,
          .expires_at_ms = grant.expires_at_ms};
}

bool Locks::release(std::string_view lock_id, std::stop_token stop) {
  const auto outcome =
      locks::release(*runtime_->backend, {.lock = {.id = checked_id(lock_id), .key = {}}}, std::move(stop))
          .value_or_throw();
  return std::holds_alternative<Released>(outcome);
}

std::optional<std::int64_t> Locks::extend(std::string_view lock_id, std::chrono::milliseconds ttl,
                                          std::stop_token stop) {
  const auto outcome =
      locks::extend(*runtime_->backend,
                    {.lock = {.id = checked_id(lock_id), .key = {}}, .ttl = Ttl::of(ttl).value_or_throw()},
                    std::move(stop))
          .value_or_throw();
  const auto* extended = std::get_if<Extended>(&outcome);
  return extended != nullptr ? std::optional(extended->expires_at_ms) : std::nullopt;
}

bool Locks::is_locked(std::string_view key, std::stop_token stop) {
  auto& backend = *runtime_->backend;
  return locks::await<bool>(backend,
                            [&](auto done) {
                              backend.is_locked({.key = checked_key(key)}, std::move(stop), std::move(done));
                            })
      .value_or_throw();
}

std::optional<LockInfo> Locks::get_by_key(std::string_view key, std::stop_token stop) {
  return sanitised(get_by_key_raw(key, std::move(stop)));
}

std::optional<LockInfo> Locks::get_by_id(std::string_view lock_id, std::stop_token stop) {
  return sanitised(get_by_id_raw(lock_id, std::move(stop)));
}

std::optional<LockRecord> Locks::get_by_key_raw(std::string_view key, std::stop_token stop) {
  return locks::lookup(*runtime_->backend, {.what = checked_key(key)}, std::move(stop)).value_or_throw();
}

std::optional<LockRecord> Locks::get_by_id_raw(std::string_view lock_id, std::stop_token stop) {
  return locks::lookup(*runtime_->backend, {.what = checked_id(lock_id)}, std::move(stop)).value_or_throw();
}

bool Locks::owns(std::string_view key, std::string_view lock_id, std::stop_token stop) {
  const auto id = checked_id(lock_id);
  const auto record = get_by_key_raw(key, std::move(stop));
  return record && record->id == id;
}

LockPage Locks::list(ListRequest request, std::stop_token stop) {
  auto& backend = *runtime_->backend;
  return locks::await<LockPage>(
             backend, [&](auto done) { backend.list(std::move(request), std::move(stop), std::move(done)); })
      .value_or_throw();
}

std::optional<LockInfo> Locks::break_lock(std::string_view key, std::string_view reason,
                                          std::stop_token stop) {
  if (reason.empty()) throw Error(ErrorCode::InvalidArgument, "say why the lock is broken");
  const auto checked = checked_key(key);
  const auto record = get_by_key_raw(key, stop);
  if (!record) return std::nullopt;
  // By its id: a lock that another has taken since is not the one that was to be broken.
  const auto outcome =
      locks::release(*runtime_->backend,
                     {.lock = {.id = record->id, .key = checked}, .broken_because = std::string(reason)},
                     std::move(stop))
          .value_or_throw();
  if (!std::holds_alternative<Released>(outcome)) return std::nullopt;
  auto info = holdfast::sanitised(*record);
  if (runtime_->log) {
    runtime_->log->write(LogLevel::warning, "the lock with the key hash " + info.key_hash +
                                                " was taken from its holder: " + std::string(reason));
  }
  return info;
}

Capabilities Locks::capabilities() const noexcept {
  return runtime_->backend->capabilities();
}
std::string Locks::authority() const {
  return runtime_->authority;
}
LockBackend& Locks::backend() const noexcept {
  return *runtime_->backend;
}

}  // namespace holdfast
