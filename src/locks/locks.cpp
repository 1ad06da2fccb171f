#include <holdfast/locks.hpp>

#include "locks/operations.hpp"
#include "locks/runtime.hpp"

namespace holdfast {
namespace {

using flow::Flow;
using flow::Op;

template <class T>
T run(Op<T> operation) {
  return Op<T>::run(std::move(operation)).value_or_throw();
}

template <class T>
void start(Op<T> operation, Done<T> done) {
  Op<T>::start(std::move(operation), std::move(done));
}

/// InvalidArgument if its key is none.
Result<DetachedLock> detached_lock(const DetachedLockView& lock) {
  const auto& [name, id, ttl, fence, authority, acquire_may_be_repeated] = lock;  // all members
  auto key = LockKey::parse(name);
  if (!key) return key.error();
  return DetachedLock{.key = *std::move(key),
                      .id = id,
                      .ttl = ttl,
                      .fence = fence,
                      .authority = std::string(authority),
                      .acquire_may_be_repeated = acquire_may_be_repeated};
}

ListRequest list_request(const ListLocks& what) {
  return {.cursor = std::string(what.cursor), .limit = what.limit, .deadline = what.deadline};
}

}  // namespace

class Locks::End {
 public:
  explicit End(std::shared_ptr<LockRuntime> runtime) noexcept : runtime_(std::move(runtime)) {}
  /// Not where the background itself works, which would wait for itself.
  ~End() {
    if (!runtime_->home.is_here() || sys::WorkerPool::on_library_thread()) return;
    if (!detail::Trampoline::busy()) runtime_->unfinished.wait_until_none();
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

 private:
  const std::shared_ptr<LockRuntime> runtime_;
};

Locks::Locks(std::shared_ptr<LockBackend> backend, std::shared_ptr<Log> log,
             std::shared_ptr<Observer> observer)
    : runtime_(std::make_shared<LockRuntime>(std::move(backend), std::move(log), std::move(observer))) {
  end_ = std::make_shared<End>(runtime_);
}

Guard Locks::lock(std::string_view key, const LockOptions& options, std::stop_token stop) {
  return run(locks::lock(Flow::blocking(), runtime_, std::string(key), options, std::move(stop)));
}
void Locks::lock(std::string_view key, const LockOptions& options, std::stop_token stop, Done<Guard> done) {
  start(locks::lock(runtime_->completing(), runtime_, std::string(key), options, std::move(stop)),
        std::move(done));
}

std::optional<Guard> Locks::try_lock(std::string_view key, const LockOptions& options, std::stop_token stop) {
  return run(locks::try_lock(Flow::blocking(), runtime_, std::string(key), options, std::move(stop)));
}
void Locks::try_lock(std::string_view key, const LockOptions& options, std::stop_token stop,
                     Done<std::optional<Guard>> done) {
  start(locks::try_lock(runtime_->completing(), runtime_, std::string(key), options, std::move(stop)),
        std::move(done));
}

std::optional<Guard> Locks::adopt(const DetachedLockView& lock, const LockOptions& options,
                                  std::stop_token stop) {
  return run(locks::adopt(Flow::blocking(), runtime_, detached_lock(lock).value_or_throw(), options,
                          std::move(stop)));
}
void Locks::adopt(const DetachedLockView& lock, const LockOptions& options, std::stop_token stop,
                  Done<std::optional<Guard>> done) {
  auto detached = detached_lock(lock);
  if (!detached) return done(detached.error());
  start(locks::adopt(runtime_->completing(), runtime_, *std::move(detached), options, std::move(stop)),
        std::move(done));
}

DetachedLock Locks::acquire(std::string_view key, const LockOptions& options, std::stop_token stop) {
  return run(locks::acquire(Flow::blocking(), runtime_, std::string(key), options, std::move(stop)));
}
void Locks::acquire(std::string_view key, const LockOptions& options, std::stop_token stop,
                    Done<DetachedLock> done) {
  start(locks::acquire(runtime_->completing(), runtime_, std::string(key), options, std::move(stop)),
        std::move(done));
}

bool Locks::release(std::string_view lock_id, std::stop_token stop) {
  return run(locks::release(Flow::blocking(), runtime_, std::string(lock_id), std::move(stop)));
}
void Locks::release(std::string_view lock_id, std::stop_token stop, Done<bool> done) {
  start(locks::release(runtime_->completing(), runtime_, std::string(lock_id), std::move(stop)),
        std::move(done));
}

std::optional<std::int64_t> Locks::extend(std::string_view lock_id, std::chrono::milliseconds ttl,
                                          std::stop_token stop) {
  return run(locks::extend(Flow::blocking(), runtime_, std::string(lock_id), ttl, std::move(stop)));
}
void Locks::extend(std::string_view lock_id, std::chrono::milliseconds ttl, std::stop_token stop,
                   Done<std::optional<std::int64_t>> done) {
  start(locks::extend(runtime_->completing(), runtime_, std::string(lock_id), ttl, std::move(stop)),
        std::move(done));
}

bool Locks::is_locked(std::string_view key, std::stop_token stop) {
  return run(locks::is_locked(Flow::blocking(), runtime_, std::string(key), std::move(stop)));
}
void Locks::is_locked(std::string_view key, std::stop_token stop, Done<bool> done) {
  start(locks::is_locked(runtime_->completing(), runtime_, std::string(key), std::move(stop)),
        std::move(done));
}

std::optional<LockRecord> Locks::get_by_key_raw(std::string_view key, std::stop_token stop) {
  return run(locks::get_by_key(Flow::blocking(), runtime_, std::string(key), std::move(stop)));
}
void Locks::get_by_key_raw(std::string_view key, std::stop_token stop, Done<std::optional<LockRecord>> done) {
  start(locks::get_by_key(runtime_->completing(), runtime_, std::string(key), std::move(stop)),
        std::move(done));
}

std::optional<LockRecord> Locks::get_by_id_raw(std::string_view lock_id, std::stop_token stop) {
  return run(locks::get_by_id(Flow::blocking(), runtime_, std::string(lock_id), std::move(stop)));
}
void Locks::get_by_id_raw(std::string_view lock_id, std::stop_token stop,
                          Done<std::optional<LockRecord>> done) {
  start(locks::get_by_id(runtime_->completing(), runtime_, std::string(lock_id), std::move(stop)),
        std::move(done));
}

std::optional<LockInfo> Locks::get_by_key(std::string_view key, std::stop_token stop) {
  return run(
      locks::sanitised(locks::get_by_key(Flow::blocking(), runtime_, std::string(key), std::move(stop))));
}
void Locks::get_by_key(std::string_view key, std::stop_token stop, Done<std::optional<LockInfo>> done) {
  start(locks::sanitised(
            locks::get_by_key(runtime_->completing(), runtime_, std::string(key), std::move(stop))),
        std::move(done));
}

std::optional<LockInfo> Locks::get_by_id(std::string_view lock_id, std::stop_token stop) {
  return run(
      locks::sanitised(locks::get_by_id(Flow::blocking(), runtime_, std::string(lock_id), std::move(stop))));
}
void Locks::get_by_id(std::string_view lock_id, std::stop_token stop, Done<std::optional<LockInfo>> done) {
  start(locks::sanitised(
            locks::get_by_id(runtime_->completing(), runtime_, std::string(lock_id), std::move(stop))),
        std::move(done));
}

bool Locks::owns(std::string_view key, std::string_view lock_id, std::stop_token stop) {
  return run(
      locks::owns(Flow::blocking(), runtime_, std::string(key), std::string(lock_id), std::move(stop)));
}
void Locks::owns(std::string_view key, std::string_view lock_id, std::stop_token stop, Done<bool> done) {
  start(
      locks::owns(runtime_->completing(), runtime_, std::string(key), std::string(lock_id), std::move(stop)),
      std::move(done));
}

LockPage Locks::list_raw(const ListLocks& what, std::stop_token stop) {
  return run(locks::list(Flow::blocking(), runtime_, list_request(what), std::move(stop)));
}
void Locks::list_raw(const ListLocks& what, std::stop_token stop, Done<LockPage> done) {
  start(locks::list(runtime_->completing(), runtime_, list_request(what), std::move(stop)), std::move(done));
}

std::optional<LockInfo> Locks::break_lock(std::string_view key, std::string_view reason,
                                          std::stop_token stop) {
  return run(locks::break_lock(Flow::blocking(), runtime_, std::string(key), std::string(reason),
                               std::nullopt, std::move(stop)));
}
void Locks::break_lock(std::string_view key, std::string_view reason, std::stop_token stop,
                       Done<std::optional<LockInfo>> done) {
  start(locks::break_lock(runtime_->completing(), runtime_, std::string(key), std::string(reason),
                          std::nullopt, std::move(stop)),
        std::move(done));
}

std::optional<LockInfo> Locks::break_lock(std::string_view key, std::string_view reason, Fence held_with,
                                          std::stop_token stop) {
  return run(locks::break_lock(Flow::blocking(), runtime_, std::string(key), std::string(reason), held_with,
                               std::move(stop)));
}
void Locks::break_lock(std::string_view key, std::string_view reason, Fence held_with, std::stop_token stop,
                       Done<std::optional<LockInfo>> done) {
  start(locks::break_lock(runtime_->completing(), runtime_, std::string(key), std::string(reason), held_with,
                          std::move(stop)),
        std::move(done));
}

Capabilities Locks::capabilities() const noexcept {
  return runtime_->backend->capabilities();
}
std::string Locks::authority() const {
  return runtime_->backend->authority();
}
LockBackend& Locks::backend() const noexcept {
  return *runtime_->backend;
}

}  // namespace holdfast
