#pragma once

#include <holdfast/asio/call.hpp>
#include <holdfast/locks.hpp>
#include <string>
#include <string_view>

namespace holdfast {
namespace detail {

/// A lock that was granted and has not reached its handler. Nothing else knows its id, so if it never
/// arrives it is released in the background.
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

/// A Guard for coroutines and callbacks: the same lock, renewed and guarded in the same way. Movable; a
/// moved-from guard is empty. The destructor never blocks: it releases the lock in the background.
///
/// *Asynchronous functions* take a completion token as their last argument, by default
/// `asio::use_awaitable`, and complete with `void(std::exception_ptr, T)`. The T is named in each comment; on
/// an error it is default-constructed. The exception is a holdfast::Error. The handler is posted to its
/// associated executor, or to the guard's: that of the AsyncLocks which made it. Cancellation and lifetimes
/// as in async_call. A guard must not end or move between the call of such a function and the start of the
/// operation, which `asio::use_awaitable` and `deferred` delay until the result is awaited.
///
/// *Errors* of all of them: Aborted when cancelled, InvalidArgument if the guard is empty, and those of the
/// engine: ServiceUnavailable, NetworkTimeout, RateLimited, AuthFailed, Internal.
///
/// *Threads*: as Guard; const functions may be called from any thread.
class AsyncGuard {
 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;

  /// Makes an empty guard.
  AsyncGuard() noexcept = default;
  /// Makes a guard from one of the blocking API.
  AsyncGuard(asio::any_io_executor executor, Guard guard) noexcept
      : executor_(std::move(executor)), guard_(std::move(guard)) {}
  /// Leaves the other guard empty, with its executor.
  AsyncGuard(AsyncGuard&& other) noexcept
      : executor_(other.get_executor()), guard_(std::move(other.guard_)) {}
  /// Releases the lock that it held before, in the background.
  AsyncGuard& operator=(AsyncGuard&& other) noexcept {
    if (this != &other) {
      guard_.release_in_background();
      executor_ = other.executor_;
      guard_ = std::move(other.guard_);
    }
    return *this;
  }
  /// Releases the lock in the background. The last Locks of the engine waits for that.
  ~AsyncGuard() { guard_.release_in_background(); }

  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }

  // As the functions of Guard. None does I/O.
  /// Returns false for an empty guard, as Guard's.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(guard_); }
  /// Returns the lock's key.
  [[nodiscard]] const std::string& key() const { return guard_.key(); }
  /// Returns the lock id, a secret.
  [[nodiscard]] const LockId& id() const { return guard_.id(); }
  /// Returns the fence of the grant.
  [[nodiscard]] Fence fence() const { return guard_.fence(); }
  /// Returns the fence with the key and the authority that it belongs to.
  [[nodiscard]] FencingToken token() const { return guard_.token(); }
  /// Returns the id of the store that counted the fence.
  [[nodiscard]] const std::string& authority() const { return guard_.authority(); }
  /// Returns how many replicas acknowledged the grant; empty if none were asked for.
  [[nodiscard]] std::optional<std::uint32_t> replicas() const { return guard_.replicas(); }
  /// Returns when the lease expires, by the engine's clock.
  [[nodiscard]] WallTime expires_at() const { return guard_.expires_at(); }
  /// Returns how long the lease can still be proven; for a lost guard, how long the holder has to stop.
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept { return guard_.remaining(); }
  /// Returns whether the lease can be proven now.
  [[nodiscard]] bool still_held() const noexcept { return guard_.still_held(); }
  /// Returns a token that is triggered when the lock is lost, LockOptions::notice before its proof ends.
  [[nodiscard]] std::stop_token lost() const noexcept { return guard_.lost(); }
  /// Returns why the lock was lost; empty unless it was.
  [[nodiscard]] std::optional<LossReason> loss_reason() const noexcept { return guard_.loss_reason(); }
  /// Returns whether the last renewal or extend failed, or has had no answer for a sixth of the ttl.
  [[nodiscard]] bool at_risk() const noexcept { return guard_.at_risk(); }

  /// Posts `callback(reason)` to the guard's executor when the lock is lost. The callback may run after the
  /// guard has ended. It does not count as work of the executor's context.
  template <class F>
  void on_lost(F callback) {
    auto later = std::make_shared<detail::PostedLater<F>>(executor_, std::move(callback));
    guard_.on_lost([later = std::move(later)](LossReason reason) { (*later)(reason); });
  }
  /// Posts `callback(at_risk)` to the guard's executor with each change of at_risk(), in order, as
  /// Guard::on_at_risk calls it. A call may run after a loss or the end of the guard. On an executor that
  /// runs several handlers at once, calls may overlap.
  template <class F>
  void on_at_risk(F callback) {
    guard_.on_at_risk(detail::posted_each_time(executor_, std::move(callback)));
  }
  /// Sets what is called when a background release fails, on a thread of the library that may block.
  void on_release_error(std::function<void(const Error&)> callback) {
    guard_.on_release_error(std::move(callback));
  }

  /// Waits until the lock is lost, for `co_await (work() || guard.wait_lost())`. T: LossReason. The work that
  /// is cancelled then has remaining() to stop.
  ///
  /// Fails with Aborted if the guard ends first. Once the operation has started, the guard may end or move.
  /// Cancellation ends the wait and leaves the lock as it is.
  template <class Token = asio::use_awaitable_t<>>
  auto wait_lost(Token&& token = {}) {
    return async_call<LossReason>(
        executor_,
        [this](std::stop_token stop, Done<LossReason> done) {
          guard_.wait_lost(std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// Releases the lock. T: bool, true if it was still held; false for an empty guard.
  ///
  /// The guard is empty when this function returns, and may end. If the operation is cancelled, fails or is
  /// never started, the lock is released in the background.
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

  /// Renews the lock now, for `ttl` from now on and with every renewal after. T: bool, false if the lock is
  /// gone; the guard is lost then. False without a request if it was lost before.
  ///
  /// If it fails or is cancelled, the new ttl may or may not have been set: `remaining()` counts the shorter.
  template <class Token = asio::use_awaitable_t<>>
  auto extend(std::chrono::milliseconds ttl, Token&& token = {}) {
    return async_call<bool>(
        executor_,
        [this, ttl](std::stop_token stop, Done<bool> done) {
          guard_.extend(ttl, std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// Renews the lock once, durably, and leaves it held without a guard, to be adopted or released by id.
  /// T: std::optional<Lease>, empty if the guard is lost, also because the lock is gone.
  ///
  /// If it fails or is cancelled, the guard still holds the lock. If the handler is destroyed instead of
  /// called, the lock may be detached: it then expires with its ttl.
  template <class Token = asio::use_awaitable_t<>>
  auto detach(Token&& token = {}) {
    return async_call<std::optional<Lease>>(
        executor_,
        [this](std::stop_token stop, Done<std::optional<Lease>> done) {
          guard_.detach(std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// Returns the guard for code that blocks, and leaves this one empty.
  [[nodiscard]] Guard into_guard() && noexcept { return std::move(guard_); }

 private:
  asio::any_io_executor executor_ = asio::system_executor();
  Guard guard_;
};

/// Locks for coroutines and callbacks: every operation of Locks for any completion token. No function blocks;
/// an engine that does (SQLite) has a small thread pool. Cheap to copy; copies share the engine. All
/// functions may be called from any thread. This object may end while operations are under way.
///
/// *Completion*. The last argument is a completion token, by default `asio::use_awaitable`. The signature is
/// `void(std::exception_ptr, T)`; the T is named in each comment. On an error the exception is a
/// holdfast::Error and T is default-constructed: an empty guard, an empty optional. `as_result` turns both
/// into a Result<T>.
///
/// *Executor*. The handler is posted to its associated executor, or to the one of this object.
///
/// *Arguments*. They are copied: what they view must be valid only until the function returns.
///
/// *Cancellation*. A signal of any type ends an operation with Aborted at any point, and no lock is held.
/// What a cancelled change leaves behind is in its comment. If the context of the handler's executor is
/// destroyed first, a lock that was on its way to the handler is released.
///
/// *Errors* of all of them: InvalidArgument (a key, lock id or option; nothing was sent), Aborted, and those
/// of the engine: ServiceUnavailable, NetworkTimeout (whether a change took effect is unknown), RateLimited,
/// AuthFailed, Internal. Further ones are in the comments.
class AsyncLocks {
  // What callers write in a co_await expression; see detail::safe_to_await_with.
  static_assert(detail::safe_to_await_with<LockOptions> && detail::safe_to_await_with<LeaseView> &&
                detail::safe_to_await_with<ListLocks> && detail::safe_to_await_with<Fence>);

 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;

  /// Wraps `locks`; handlers without an executor are posted to `executor`.
  AsyncLocks(asio::any_io_executor executor, Locks locks)
      : executor_(std::move(executor)), locks_(std::move(locks)) {}
  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  /// Returns the same locks for code that blocks.
  [[nodiscard]] const Locks& blocking() const noexcept { return locks_; }

  /// Waits for the lock and guards it. T: AsyncGuard.
  ///
  /// AcquisitionTimeout when `options.wait` or `options.retries` is used up. Cancelled while it waits or
  /// while the request is on its way, it holds nothing: a grant that still arrives is released in the
  /// background.
  template <class Token = asio::use_awaitable_t<>>
  auto lock(LockKeyView key, const LockOptions& options = {}, Token&& token = {}) const {
    return call(operation::Lock{key, options}, std::forward<Token>(token));
  }
  /// Tries once to take the lock, without waiting. T: std::optional<AsyncGuard>, empty if another holder has
  /// it. Cancellation as with `lock`.
  template <class Token = asio::use_awaitable_t<>>
  auto try_lock(LockKeyView key, const LockOptions& options = {}, Token&& token = {}) const {
    return call(operation::TryLock{key, options}, std::forward<Token>(token));
  }
  /// Extends a lock that was detached, here or in another process, and guards it. T:
  /// std::optional<AsyncGuard>, empty if the lock is gone. Cancelled, the lease may have been extended once.
  template <class Token = asio::use_awaitable_t<>>
  auto adopt(const LeaseView& lease, const LockOptions& options = {}, Token&& token = {}) const {
    return call(operation::Adopt{detail::owned(lease), options}, std::forward<Token>(token));
  }
  /// Waits for the lock as `lock` does, durably and without a guard. T: Lease.
  ///
  /// The lock is held until it is released by id or expires. It is released in the background if the handler
  /// is destroyed instead of called. Cancellation and AcquisitionTimeout as with `lock`.
  template <class Token = asio::use_awaitable_t<>>
  auto acquire(LockKeyView key, const LockOptions& options = {}, Token&& token = {}) const {
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
  /// Releases a lock without a guard. T: bool, false if that id holds no lock. Cancelled, the lock may be
  /// released.
  template <class Token = asio::use_awaitable_t<>>
  auto release(std::string_view lock_id, Token&& token = {}) const {
    return call(operation::Release{std::string(lock_id)}, std::forward<Token>(token));
  }
  /// Extends a lock without a guard to `ttl` from now. T: std::optional<WallTime>, the new expiry, empty if
  /// that id holds no lock. Cancelled, the lock may be extended.
  template <class Token = asio::use_awaitable_t<>>
  auto extend(std::string_view lock_id, std::chrono::milliseconds ttl, Token&& token = {}) const {
    return call(operation::Extend{std::string(lock_id), ttl}, std::forward<Token>(token));
  }
  /// Checks whether the key is locked now. T: bool.
  template <class Token = asio::use_awaitable_t<>>
  auto is_locked(LockKeyView key, Token&& token = {}) const {
    return call(operation::IsLocked{key}, std::forward<Token>(token));
  }
  /// Looks up the lock of a key, with hashes in place of its key and id. T: std::optional<LockInfo>, empty if
  /// there is none.
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_key(LockKeyView key, Token&& token = {}) const {
    return call(operation::GetByKey{key}, std::forward<Token>(token));
  }
  /// Looks up the lock of an id, with hashes in place of its key and id. T: std::optional<LockInfo>, empty if
  /// there is none.
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_id(std::string_view lock_id, Token&& token = {}) const {
    return call(operation::GetById{std::string(lock_id)}, std::forward<Token>(token));
  }
  /// Looks up the lock of a key, with its raw key and id. Do not log the id: it is all that a release needs.
  /// T: std::optional<LockRecord>, empty if there is none.
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_key_raw(LockKeyView key, Token&& token = {}) const {
    return call(operation::GetByKeyRaw{key}, std::forward<Token>(token));
  }
  /// Looks up the lock of an id, with its raw key and id. T: std::optional<LockRecord>, empty if there is
  /// none.
  template <class Token = asio::use_awaitable_t<>>
  auto get_by_id_raw(std::string_view lock_id, Token&& token = {}) const {
    return call(operation::GetByIdRaw{std::string(lock_id)}, std::forward<Token>(token));
  }
  /// Checks whether that id holds that key, for diagnosis: it may be untrue a moment later. T: bool.
  template <class Token = asio::use_awaitable_t<>>
  auto owns(LockKeyView key, std::string_view lock_id, Token&& token = {}) const {
    return call(operation::Owns{key, std::string(lock_id)}, std::forward<Token>(token));
  }
  /// Lists the live locks with their raw keys and ids, a page at a time. T: LockPage.
  template <class Token = asio::use_awaitable_t<>>
  auto list_raw(const ListLocks& what = {}, Token&& token = {}) const {
    return call(operation::ListLocksRaw{what.request()}, std::forward<Token>(token));
  }
  /// Counts the processes that wait for these locks; see Locks::count_waiters. T: WaiterCounts.
  template <class Token = asio::use_awaitable_t<>>
  auto count_waiters(std::span<const LockKey> keys, Token&& token = {}) const {
    return call(operation::CountWaiters{{keys.begin(), keys.end()}}, std::forward<Token>(token));
  }
  /// Opens a feed of released and broken locks; see Locks::follow. T: std::unique_ptr<ChangeFeed>, null if
  /// the engine cannot follow changes.
  template <class Token = asio::use_awaitable_t<>>
  auto follow(Token&& token = {}) const {
    return call(operation::FollowHeldLocks{}, std::forward<Token>(token));
  }
  /// Opens a feed of acquired locks; see Locks::follow_grants. T: std::unique_ptr<ChangeFeed>, null if the
  /// engine cannot report them.
  template <class Token = asio::use_awaitable_t<>>
  auto follow_grants(Token&& token = {}) const {
    return call(operation::FollowHeldLocks{LockChanges::grants}, std::forward<Token>(token));
  }
  /// Breaks the lock of a key, for operators; see Locks::break_lock. T: std::optional<LockInfo>, the lock
  /// that was broken, empty if there was none. Cancelled, the lock may be broken.
  template <class Token = asio::use_awaitable_t<>>
    requires(!std::is_same_v<std::remove_cvref_t<Token>, Fence>)
  auto break_lock(LockKeyView key, std::string_view reason, Token&& token = {}) const {
    return call(operation::BreakLock{key, std::string(reason)}, std::forward<Token>(token));
  }
  /// Breaks the lock of a key only if it is held with this fence. T and cancellation as above.
  template <class Token = asio::use_awaitable_t<>>
  auto break_lock(LockKeyView key, std::string_view reason, Fence held_with, Token&& token = {}) const {
    return call(operation::BreakLock{key, std::string(reason), held_with}, std::forward<Token>(token));
  }

  /// Returns what the engine can do.
  [[nodiscard]] Capabilities capabilities() const noexcept { return locks_.capabilities(); }
  /// Returns the id of the store that counts the fences.
  [[nodiscard]] std::string authority() const { return locks_.authority(); }

 private:
  /// What a handler gets in place of what the blocking function returns.
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
  auto call(Operation operation, Token&& token) const {
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
