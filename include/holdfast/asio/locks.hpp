#pragma once

#include <holdfast/asio/call.hpp>
#include <holdfast/locks.hpp>
#include <string>
#include <string_view>

namespace holdfast {
namespace detail {

/// A lock on its way to whoever asked for it. Nobody else knows its id, so if it never arrives it is
/// released, in the background.
class LockInTransit {
 public:
  LockInTransit(Locks locks, Lease lock) : locks_(std::move(locks)), lock_(std::move(lock)) {}
  LockInTransit(LockInTransit&& other) noexcept
      : locks_(std::exchange(other.locks_, std::nullopt)), lock_(std::move(other.lock_)) {}
  LockInTransit& operator=(LockInTransit&&) = delete;
  ~LockInTransit() {
    if (locks_) locks_->release_in_background(lock_.id.str());
  }
  [[nodiscard]] Lease arrived() && {
    locks_.reset();
    return std::move(lock_);
  }

 private:
  std::optional<Locks> locks_;
  Lease lock_;
};

template <>
struct HandOver<LockInTransit> {
  static Lease of(LockInTransit lock) { return std::move(lock).arrived(); }
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
  [[nodiscard]] FencingToken token() const { return guard_.token(); }
  [[nodiscard]] const std::string& authority() const { return guard_.authority(); }
  [[nodiscard]] WallTime expires_at() const { return guard_.expires_at(); }
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

  /// std::optional<Lease>: nothing if the lock is gone. The guard must live until it completes. If the
  /// handler is destroyed instead of called, the lock may be detached, and ends with its ttl.
  template <class Token = asio::use_awaitable_t<>>
  auto detach(Token&& token = {}) {
    return async_call<std::optional<Lease>>(
        executor_,
        [this](std::stop_token stop, Done<std::optional<Lease>> done) {
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
  // What callers write in a co_await expression; see detail::safe_to_await_with.
  static_assert(detail::safe_to_await_with<LockOptions> && detail::safe_to_await_with<LeaseView> &&
                detail::safe_to_await_with<ListLocks> && detail::safe_to_await_with<Fence>);

 public:
  using executor_type = asio::any_io_executor;

  AsyncLocks(asio::any_io_executor executor, Locks locks)
      : executor_(std::move(executor)), locks_(std::move(locks)) {}
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  [[nodiscard]] Locks& blocking() noexcept { return locks_; }

  /// AsyncGuard
  template <class Token = asio::use_awaitable_t<>>
  auto lock(LockKeyView key, const LockOptions& options = {}, Token&& token = {}) {
    return call(operation::Lock{key, options}, std::forward<Token>(token));
  }
  /// std::optional<AsyncGuard>
  template <class Token = asio::use_awaitable_t<>>
  auto try_lock(LockKeyView key, const LockOptions& options = {}, Token&& token = {}) {
    return call(operation::TryLock{key, options}, std::forward<Token>(token));
  }
  /// std::optional<AsyncGuard>
  template <class Token = asio::use_awaitable_t<>>
  auto adopt(const LeaseView& lease, const LockOptions& options = {}, Token&& token = {}) {
    return call(operation::Adopt{detail::owned(lease), options}, std::forward<Token>(token));
  }
  /// Lease. It is released if the handler is destroyed instead of called.
  template <class Token = asio::use_awaitable_t<>>
  auto acquire(LockKeyView key, const LockOptions& options = {}, Token&& token = {}) {
    using InTransit = detail::LockInTransit;
    // In transit from the engine's answer on: the handler's context may be gone when it comes.
    return async_call<InTransit>(
        executor_,
        [locks = locks_, operation = operation::Acquire{key, options}](std::stop_token stop,
                                                                       Done<InTransit> done) mutable {
          locks.start(std::move(operation), std::move(stop),
                      [locks, done = std::move(done)](Result<Lease> lock) mutable {
                        done(lock ? Result<InTransit>(InTransit(locks, *std::move(lock)))
                                  : Result<InTransit>(lock.error()));
                      });
        },
        std::forward<Token>(token));
  }
  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto release(std::string_view lock_id, Token&& token = {}) {
    return call(operation::Release{std::string(lock_id)}, std::forward<Token>(token));
  }
  /// std::optional<WallTime>: the new expiry
  template <class Token = asio::use_awaitable_t<>>
  auto extend(std::string_view lock_id, std::chrono::milliseconds ttl, Token&& token = {}) {
    return call(operation::Extend{std::string(lock_id), ttl}, std::forward<Token>(token));
  }
  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto is_locked(LockKeyView key, Token&& token = {}) {
    return call(operation::IsLocked{key}, std::forward<Token>(token));
  }
  /// std::optional<LockInfo>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_key(LockKeyView key, Token&& token = {}) {
    return call(operation::GetByKey{key}, std::forward<Token>(token));
  }
  /// std::optional<LockInfo>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_id(std::string_view lock_id, Token&& token = {}) {
    return call(operation::GetById{std::string(lock_id)}, std::forward<Token>(token));
  }
  /// std::optional<LockRecord>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_key_raw(LockKeyView key, Token&& token = {}) {
    return call(operation::GetByKeyRaw{key}, std::forward<Token>(token));
  }
  /// std::optional<LockRecord>
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_id_raw(std::string_view lock_id, Token&& token = {}) {
    return call(operation::GetByIdRaw{std::string(lock_id)}, std::forward<Token>(token));
  }
  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto owns(LockKeyView key, std::string_view lock_id, Token&& token = {}) {
    return call(operation::Owns{key, std::string(lock_id)}, std::forward<Token>(token));
  }
  /// LockPage
  template <class Token = asio::use_awaitable_t<>>
  auto list_raw(const ListLocks& what = {}, Token&& token = {}) {
    return call(operation::ListLocksRaw{what.request()}, std::forward<Token>(token));
  }
  /// std::optional<LockInfo>: whose it was
  template <class Token = asio::use_awaitable_t<>>
    requires(!std::is_same_v<std::remove_cvref_t<Token>, Fence>)
  auto break_lock(LockKeyView key, std::string_view reason, Token&& token = {}) {
    return call(operation::BreakLock{key, std::string(reason)}, std::forward<Token>(token));
  }
  /// std::optional<LockInfo>: whose it was; only the lock that is held with this fence
  template <class Token = asio::use_awaitable_t<>>
  auto break_lock(LockKeyView key, std::string_view reason, Fence held_with, Token&& token = {}) {
    return call(operation::BreakLock{key, std::string(reason), held_with}, std::forward<Token>(token));
  }

  [[nodiscard]] Capabilities capabilities() const noexcept { return locks_.capabilities(); }
  [[nodiscard]] std::string authority() const { return locks_.authority(); }

 private:
  /// What a coroutine gets in place of what the blocking function returns.
  struct Convert {
    asio::any_io_executor executor;
    AsyncGuard operator()(Guard guard) const { return {executor, std::move(guard)}; }
    std::optional<AsyncGuard> operator()(std::optional<Guard> guard) const {
      if (!guard) return std::nullopt;
      return AsyncGuard(executor, *std::move(guard));
    }
    template <class T>
    T operator()(T value) const {
      return value;
    }
  };

  template <class Operation, class Token>
  auto call(Operation operation, Token&& token) {
    using Answer = typename Operation::Answer;
    return async_call<Answer>(
        executor_,
        [locks = locks_, operation = std::move(operation)](std::stop_token stop, Done<Answer> done) mutable {
          locks.start(std::move(operation), std::move(stop), std::move(done));
        },
        std::forward<Token>(token), Convert{executor_});
  }

  asio::any_io_executor executor_;
  Locks locks_;
};

}  // namespace holdfast
