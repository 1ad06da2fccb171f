#include "support/tested_locks.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/post.hpp>
#include <future>
#include <ostream>

#include "support/stop_to_slot.hpp"

namespace holdfast::test {
namespace {

/// Starts the operation on the context's thread, with a handler as its token, and waits for it here.
template <class T, class Start>
T wait_for(AsioThread& thread, const std::stop_token& stop, const Start& start) {
  auto& context = thread.context();
  // The error by value: see AsioThread::await.
  std::promise<Result<T>> told;
  auto answer = told.get_future();
  asio::post(context, [&] {
    const auto cancellation = std::make_shared<StopToSlot>(context);
    start(asio::bind_cancellation_slot(
        cancellation->slot(),
        [cancellation, told = std::move(told)](const std::exception_ptr& error, T value) mutable {
          cancellation->end();
          if (!error) return told.set_value(std::move(value));
          try {
            std::rethrow_exception(error);
          } catch (const Error& failure) {
            told.set_value(failure);
          }
        }));
    cancellation->listen(stop);
  });
  return answer.get().value_or_throw();
}

}  // namespace

void PrintTo(const Facade& facade, std::ostream* out) {
  *out << facade.name;
}

std::vector<Facade> facades() {
  return {{.name = "blocking"}, {.name = "asio", .asio = true, .waits = false}};
}

std::vector<Facade> waiting_facades() {
  auto all = facades();
  std::erase_if(all, [](const Facade& facade) { return !facade.waits; });
  return all;
}

TestedGuard& TestedGuard::operator=(TestedGuard&& other) noexcept {
  guard_ = std::move(other.guard_);
  async_ = std::move(other.async_);
  thread_ = other.thread_;
  return *this;
}

void TestedGuard::on_lost(std::function<void(LossReason)> callback) {
  if (!thread_) return guard_.on_lost(std::move(callback));
  async_.on_lost(std::move(callback));
}

void TestedGuard::on_at_risk(std::function<void(bool)> callback) {
  if (!thread_) return guard_.on_at_risk(std::move(callback));
  async_.on_at_risk(std::move(callback));
}

void TestedGuard::on_release_error(std::function<void(const Error&)> callback) {
  if (!thread_) return guard_.on_release_error(std::move(callback));
  async_.on_release_error(std::move(callback));
}

bool TestedGuard::release() {
  if (!thread_) return guard_.release();
  return wait_for<bool>(*thread_, {}, [&](auto token) { async_.release(std::move(token)); });
}

bool TestedGuard::extend(std::chrono::milliseconds ttl) {
  if (!thread_) return guard_.extend(ttl);
  return wait_for<bool>(*thread_, {}, [&](auto token) { async_.extend(ttl, std::move(token)); });
}

std::optional<Lease> TestedGuard::detach() {
  if (!thread_) return guard_.detach();
  return wait_for<std::optional<Lease>>(*thread_, {}, [&](auto token) { async_.detach(std::move(token)); });
}

TestedLocks::TestedLocks(const Facade& facade, std::shared_ptr<LockBackend> backend, std::shared_ptr<Log> log)
    : thread_(facade.asio ? std::make_shared<AsioThread>() : nullptr),
      locks_(std::move(backend), std::move(log)) {}

template <class T, class Call>
T TestedLocks::ask(const Call& call, const std::stop_token& stop) {
  AsyncLocks locks(thread_->context().get_executor(), locks_);
  return wait_for<T>(*thread_, stop, [&](auto token) { call(locks, std::move(token)); });
}

TestedGuard TestedLocks::lock(std::string_view key, const LockOptions& options, const std::stop_token& stop) {
  if (!thread_) return tested(locks_.lock(key, options, stop));
  return tested(
      ask<AsyncGuard>([&](auto& locks, auto token) { locks.lock(key, options, std::move(token)); }, stop));
}

std::optional<TestedGuard> TestedLocks::try_lock(std::string_view key, const LockOptions& options,
                                                 const std::stop_token& stop) {
  if (!thread_) return tested(locks_.try_lock(key, options, stop));
  return tested(ask<std::optional<AsyncGuard>>(
      [&](auto& locks, auto token) { locks.try_lock(key, options, std::move(token)); }, stop));
}

std::optional<TestedGuard> TestedLocks::adopt(const Lease& lock, const LockOptions& options) {
  if (!thread_) return tested(locks_.adopt(lock, options));
  return tested(ask<std::optional<AsyncGuard>>(
      [&](auto& locks, auto token) { locks.adopt(lock, options, std::move(token)); }));
}

Lease TestedLocks::acquire(std::string_view key, const LockOptions& options) {
  if (!thread_) return locks_.acquire(key, options);
  return ask<Lease>([&](auto& locks, auto token) { locks.acquire(key, options, std::move(token)); });
}

bool TestedLocks::release(std::string_view lock_id) {
  if (!thread_) return locks_.release(lock_id);
  return ask<bool>([&](auto& locks, auto token) { locks.release(lock_id, std::move(token)); });
}

std::optional<WallTime> TestedLocks::extend(std::string_view lock_id, std::chrono::milliseconds ttl) {
  if (!thread_) return locks_.extend(lock_id, ttl);
  return ask<std::optional<WallTime>>(
      [&](auto& locks, auto token) { locks.extend(lock_id, ttl, std::move(token)); });
}

bool TestedLocks::is_locked(std::string_view key) {
  if (!thread_) return locks_.is_locked(key);
  return ask<bool>([&](auto& locks, auto token) { locks.is_locked(key, std::move(token)); });
}

std::optional<LockInfo> TestedLocks::get_by_key(std::string_view key) {
  if (!thread_) return locks_.get_by_key(key);
  return ask<std::optional<LockInfo>>(
      [&](auto& locks, auto token) { locks.get_by_key(key, std::move(token)); });
}

std::optional<LockInfo> TestedLocks::get_by_id(std::string_view lock_id) {
  if (!thread_) return locks_.get_by_id(lock_id);
  return ask<std::optional<LockInfo>>(
      [&](auto& locks, auto token) { locks.get_by_id(lock_id, std::move(token)); });
}

std::optional<LockRecord> TestedLocks::get_by_key_raw(std::string_view key) {
  if (!thread_) return locks_.get_by_key_raw(key);
  return ask<std::optional<LockRecord>>(
      [&](auto& locks, auto token) { locks.get_by_key_raw(key, std::move(token)); });
}

std::optional<LockRecord> TestedLocks::get_by_id_raw(std::string_view lock_id) {
  if (!thread_) return locks_.get_by_id_raw(lock_id);
  return ask<std::optional<LockRecord>>(
      [&](auto& locks, auto token) { locks.get_by_id_raw(lock_id, std::move(token)); });
}

bool TestedLocks::owns(std::string_view key, std::string_view lock_id) {
  if (!thread_) return locks_.owns(key, lock_id);
  return ask<bool>([&](auto& locks, auto token) { locks.owns(key, lock_id, std::move(token)); });
}

LockPage TestedLocks::list(const ListLocks& what) {
  if (!thread_) return locks_.list_raw(what);
  return ask<LockPage>([&](auto& locks, auto token) { locks.list_raw(what, std::move(token)); });
}

std::optional<LockInfo> TestedLocks::break_lock(std::string_view key, std::string_view reason) {
  if (!thread_) return locks_.break_lock(key, reason);
  return ask<std::optional<LockInfo>>(
      [&](auto& locks, auto token) { locks.break_lock(key, reason, std::move(token)); });
}

}  // namespace holdfast::test
