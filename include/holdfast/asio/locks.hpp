#pragma once

#include <holdfast/asio/call.hpp>
#include <holdfast/locks.hpp>
#include <string>
#include <string_view>

namespace holdfast {
namespace detail {

template <>
struct Placeholder<DetachedLock> {
  static DetachedLock make() {
    return {.key = *LockKey::parse("-"),
            .id = LockId::generate(),
            .ttl = *Ttl::of(std::chrono::milliseconds(1)),
            .fence = Fence(),
            .expires_at_ms = 0};
  }
};

/// A lock on its way to whoever asked for it. Nobody else knows its id, so if it never arrives it is
/// released, in the background.
class LockInTransit {
 public:
  LockInTransit(Locks locks, DetachedLock lock) : locks_(std::move(locks)), lock_(std::move(lock)) {}
  LockInTransit(LockInTransit&& other) noexcept
      : locks_(std::exchange(other.locks_, std::nullopt)), lock_(std::move(other.lock_)) {}
  LockInTransit& operator=(LockInTransit&&) = delete;
  ~LockInTransit() {
    if (locks_) locks_->release(lock_.id.str(), {}, [](const Result<bool>&) {});
  }
  [[nodiscard]] DetachedLock arrived() && {
    locks_.reset();
    return std::move(lock_);
  }

 private:
  std::optional<Locks> locks_;
  DetachedLock lock_;
};

template <>
struct HandOver<LockInTransit> {
  static DetachedLock of(LockInTransit lock) { return std::move(lock).arrived(); }
};

}  // namespace detail

/// A Guard for coroutines and callbacks: the same lock, renewed and guarded in the same way. What asks the
/// engine takes a completion token and completes on the handler's executor, by default the one that made the
/// guard. The destructor never blocks: it releases in the background.
class AsyncGuard {
 public:
  using executor_type = asio::any_io_executor;

  /// An empty guard.
  AsyncGuard() noexcept = default;
  AsyncGuard(asio::any_io_executor executor, Guard guard) noexcept
      : executor_(std::move(executor)), guard_(std::move(guard)) {}
  // The other one is empty then, but still knows where to complete.
  AsyncGuard(AsyncGuard&& other) noexcept
      : executor_(other.get_executor()), guard_(std::move(other.guard_)) {}
  AsyncGuard& operator=(AsyncGuard&& other) noexcept {
    if (this != &other) {
      guard_.release_in_background();
      executor_ = other.executor_;
      guard_ = std::move(other.guard_);
    }
    return *this;
  }
  ~AsyncGuard() { guard_.release_in_background(); }

  [[nodiscard]] executor_type get_executor() const { return executor_; }

  // As those of Guard.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(guard_); }
  [[nodiscard]] const std::string& key() const { return guard_.key(); }
  [[nodiscard]] const LockId& id() const { return guard_.id(); }
  [[nodiscard]] Fence fence() const { return guard_.fence(); }
  [[nodiscard]] const std::string& authority() const { return guard_.authority(); }
  [[nodiscard]] std::int64_t expires_at_ms() const { return guard_.expires_at_ms(); }
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept { return guard_.remaining(); }
  [[nodiscard]] bool still_held() const noexcept { return guard_.still_held(); }
  [[nodiscard]] std::stop_token lost() const noexcept { return guard_.lost(); }
  [[nodiscard]] std::optional<LossReason> loss_reason() const noexcept { return guard_.loss_reason(); }

  /// Posts `callback(reason)` to the guard's executor when the lock is lost. It may arrive after the guard
  /// has ended. It does not keep the executor's context from running out of work.
  template <class F>
  void on_lost(F callback) {
    auto later = std::make_shared<detail::PostedLater<F>>(executor_, std::move(callback));
    guard_.on_lost([later = std::move(later)](LossReason reason) { (*later)(reason); });
  }
  /// Runs on a thread of its own, as Guard's does.
  void on_release_error(std::function<void(const Error&)> callback) {
    guard_.on_release_error(std::move(callback));
  }

  /// LossReason, when the lock is lost; Aborted when the guard ends before. Made for
  /// `co_await (work() || guard.wait_lost())`. The guard may end or move once it is waited for.
  template <class Token = asio::use_awaitable_t<>>
  auto wait_lost(Token&& token = {}) {
    return async_call<LossReason>(
        executor_,
        [this](std::stop_token stop, Done<LossReason> done) {
          guard_.wait_lost(std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// bool: whether this id still held it. The guard is empty from the start.
  template <class Token = asio::use_awaitable_t<>>
  auto release(Token&& token = {}) {
    const auto executor = executor_;  // the guard takes its own along
    return async_call<bool>(
        executor,
        // Shared, because a token may copy what it initiates with; released in the background if it never
        // does.
        [guard = std::make_shared<AsyncGuard>(std::move(*this))](std::stop_token stop, Done<bool> done) {
          guard->guard_.release(std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// bool: false if the lock is gone; then the guard is lost. The guard must live until it completes.
  template <class Token = asio::use_awaitable_t<>>
  auto extend(std::chrono::milliseconds ttl, Token&& token = {}) {
    return async_call<bool>(
        executor_,
        [this, ttl](std::stop_token stop, Done<bool> done) {
          guard_.extend(ttl, std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// std::optional<DetachedLock>: nothing if the lock is gone. The guard must live until it completes. If the
  /// handler is destroyed instead of called, the lock may be detached, and ends with its ttl.
  template <class Token = asio::use_awaitable_t<>>
  auto detach(Token&& token = {}) {
    return async_call<std::optional<DetachedLock>>(
        executor_,
        [this](std::stop_token stop, Done<std::optional<DetachedLock>> done) {
          guard_.detach(std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// The guard itself, for code that blocks; this one is empty then.
  [[nodiscard]] Guard into_guard() && noexcept { return std::move(guard_); }

 private:
  asio::any_io_executor executor_ = asio::system_executor();
  Guard guard_;
};

/// Locks for coroutines and callbacks: every operation of Locks, with any completion token
/// (`asio::use_awaitable` if none is given), completed on the handler's executor. No call blocks; an engine
/// that does (SQLite) has a small pool for it. A cancelled operation ends with Aborted and holds nothing.
/// Errors are holdfast::Error. Cheap to copy. May be called from any thread.
class AsyncLocks {
 public:
  using executor_type = asio::any_io_executor;

  AsyncLocks(asio::any_io_executor executor, Locks locks)
      : executor_(std::move(executor)), locks_(std::move(locks)) {}
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  [[nodiscard]] Locks& blocking() noexcept { return locks_; }

  /// AsyncGuard
  template <class Token = asio::use_awaitable_t<>>
  auto lock(std::string_view key, const LockOptions& options = {}, Token&& token = {}) {
    return async_call<Guard>(
        executor_,
        detail::with_arguments(
            locks_, [](Locks& locks, auto&&... all) { locks.lock(std::forward<decltype(all)>(all)...); }, key,
            options),
        std::forward<Token>(token), Guarding{executor_});
  }

  /// std::optional<AsyncGuard>
  template <class Token = asio::use_awaitable_t<>>
  auto try_lock(std::string_view key, const LockOptions& options = {}, Token&& token = {}) {
    return async_call<std::optional<Guard>>(
        executor_,
        detail::with_arguments(
            locks_, [](Locks& locks, auto&&... all) { locks.try_lock(std::forward<decltype(all)>(all)...); },
            key, options),
        std::forward<Token>(token), Guarding{executor_});
  }

  /// std::optional<AsyncGuard>
  template <class Token = asio::use_awaitable_t<>>
  auto adopt(const DetachedLockView& lock, const LockOptions& options = {}, Token&& token = {}) {
    return async_call<std::optional<Guard>>(
        executor_,
        detail::with_arguments(
            locks_, [](Locks& locks, auto&&... all) { locks.adopt(std::forward<decltype(all)>(all)...); },
            lock, options),
        std::forward<Token>(token), Guarding{executor_});
  }

  /// DetachedLock. It is released if the handler is destroyed instead of called.
  template <class Token = asio::use_awaitable_t<>>
  auto acquire(std::string_view key, const LockOptions& options = {}, Token&& token = {}) {
    using InTransit = detail::LockInTransit;
    return call<InTransit>(
        std::forward<Token>(token),
        [](Locks& locks, std::string_view name, const LockOptions& how, std::stop_token stop,
           Done<InTransit> done) {
          locks.acquire(name, how, std::move(stop),
                        [locks, done = std::move(done)](Result<DetachedLock> lock) mutable {
                          done(lock ? Result<InTransit>(InTransit(locks, *std::move(lock)))
                                    : Result<InTransit>(lock.error()));
                        });
        },
        key, options);
  }

  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto release(std::string_view lock_id, Token&& token = {}) {
    return call<bool>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.release(std::forward<decltype(all)>(all)...); }, lock_id);
  }

  /// std::optional<std::int64_t>: the new expiry
  template <class Token = asio::use_awaitable_t<>>
  auto extend(std::string_view lock_id, std::chrono::milliseconds ttl, Token&& token = {}) {
    return call<std::optional<std::int64_t>>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.extend(std::forward<decltype(all)>(all)...); }, lock_id, ttl);
  }

  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto is_locked(std::string_view key, Token&& token = {}) {
    return call<bool>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.is_locked(std::forward<decltype(all)>(all)...); }, key);
  }

  /// std::optional<LockInfo>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_key(std::string_view key, Token&& token = {}) {
    return call<std::optional<LockInfo>>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.get_by_key(std::forward<decltype(all)>(all)...); }, key);
  }
  /// std::optional<LockInfo>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_id(std::string_view lock_id, Token&& token = {}) {
    return call<std::optional<LockInfo>>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.get_by_id(std::forward<decltype(all)>(all)...); }, lock_id);
  }
  /// std::optional<LockRecord>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_key_raw(std::string_view key, Token&& token = {}) {
    return call<std::optional<LockRecord>>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.get_by_key_raw(std::forward<decltype(all)>(all)...); }, key);
  }
  /// std::optional<LockRecord>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_id_raw(std::string_view lock_id, Token&& token = {}) {
    return call<std::optional<LockRecord>>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.get_by_id_raw(std::forward<decltype(all)>(all)...); },
        lock_id);
  }

  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto owns(std::string_view key, std::string_view lock_id, Token&& token = {}) {
    return call<bool>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.owns(std::forward<decltype(all)>(all)...); }, key, lock_id);
  }

  /// LockPage
  template <class Token = asio::use_awaitable_t<>>
  auto list_raw(const ListLocks& what = {}, Token&& token = {}) {
    return call<LockPage>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.list_raw(std::forward<decltype(all)>(all)...); }, what);
  }

  /// std::optional<LockInfo>: whose it was
  template <class Token = asio::use_awaitable_t<>>
    requires(!std::is_same_v<std::remove_cvref_t<Token>, Fence>)
  auto break_lock(std::string_view key, std::string_view reason, Token&& token = {}) {
    return call<std::optional<LockInfo>>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.break_lock(std::forward<decltype(all)>(all)...); }, key,
        reason);
  }

  /// std::optional<LockInfo>: whose it was; the one that is held with this fence only
  template <class Token = asio::use_awaitable_t<>>
  auto break_lock(std::string_view key, std::string_view reason, Fence held_with, Token&& token = {}) {
    return call<std::optional<LockInfo>>(
        std::forward<Token>(token),
        [](Locks& locks, auto&&... all) { locks.break_lock(std::forward<decltype(all)>(all)...); }, key,
        reason, held_with);
  }

  [[nodiscard]] Capabilities capabilities() const noexcept { return locks_.capabilities(); }
  [[nodiscard]] std::string authority() const { return locks_.authority(); }

 private:
  struct Guarding {
    asio::any_io_executor executor;
    AsyncGuard operator()(Guard guard) const { return {executor, std::move(guard)}; }
    std::optional<AsyncGuard> operator()(std::optional<Guard> guard) const {
      if (!guard) return std::nullopt;
      return AsyncGuard(executor, *std::move(guard));
    }
  };

  /// `operation(locks, arguments..., stop, done)`
  template <class T, class Token, class Operation, class... Arguments>
  auto call(Token&& token, Operation operation, const Arguments&... arguments) {
    return async_call<T>(executor_, detail::with_arguments(locks_, operation, arguments...),
                         std::forward<Token>(token));
  }

  asio::any_io_executor executor_;
  Locks locks_;
};

}  // namespace holdfast
