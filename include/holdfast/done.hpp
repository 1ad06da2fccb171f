#pragma once

/// @file
/// Done and Completion: how an operation reports its result. This header is the one place for authors of
/// engines, decorators and event-loop adapters. A program that calls the blocking functions of Locks and
/// Tasks does not need it. A function that takes a Done accepts any callable: `[](Result<Task> result) { ...
/// }`.
///
/// An engine implements one `submit(request, stop, done)` per request type (see Contract). It must call
/// `done` exactly once, with the outcome or with an Error:
/// - inline, before `submit` returns, if it has the result (the memory and SQLite engines), or
/// - later, from another thread, when the result arrives (the Redis engine).
///
/// It must not hold a mutex or an open transaction then, because `done` may start the next operation.
///
/// @code
/// class MyLocks final : public holdfast::LockBackend {
///   // Inline: the result is known at once.
///   void submit(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
///     if (stop.stop_requested()) return done(Error(ErrorCode::Aborted, "the caller stopped the operation"));
///     bool held = false;
///     {
///       const std::lock_guard lock(mutex_);
///       held = table_.contains(request.key.str());
///     }
///     done(held);
///   }
///
///   // Later: the callback is kept until the server answers. Done is move-only.
///   void submit(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
///     connection_.send(encode(request), [done = std::move(done)](const Reply& reply) mutable {
///       done(reply.ok() ? Result<ExtendOutcome>(decode(reply)) : Result<ExtendOutcome>(error_of(reply)));
///     });
///   }
///   // ...
/// };
/// @endcode

#include <atomic>
#include <cstddef>
#include <holdfast/export.hpp>
#include <holdfast/result.hpp>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace holdfast {

/// One-shot event that a blocked thread waits on: the end of one operation. A caller owns it, usually in a
/// Slot, and passes it to LockBackend::wait or StorageBackend::wait.
class Completion {
 public:
  /// Triggers the event and wakes all waiting threads. The woken thread may destroy the Completion at once,
  /// so the caller must not touch it afterwards.
  void finish() noexcept {
    state_.store(finished_state, std::memory_order_release);
    state_.notify_all();
  }
  /// Returns true once finish() was called. What happened before finish() is then visible to this thread.
  [[nodiscard]] bool finished() const noexcept {
    return state_.load(std::memory_order_acquire) == finished_state;
  }
  /// Blocks until finish() is called. Unlike LockBackend::wait it does not let the thread help with I/O.
  void wait() noexcept {
    while (!finished()) wait_for_news();
  }

  /// Blocks until finish() or nudge() is called; the caller then checks finished(). For engines whose waiting
  /// threads take turns at the I/O.
  void wait_for_news() noexcept {
    state_.wait(open_state, std::memory_order_acquire);
    int nudged = nudged_state;
    state_.compare_exchange_strong(nudged, open_state, std::memory_order_acq_rel);
  }
  /// Wakes the thread in wait_for_news() without finishing the operation, for example to hand it the I/O. A
  /// nudge before wait_for_news() is kept, a second one is merged with it; after finish() it has no effect.
  void nudge() noexcept {
    int open = open_state;
    if (state_.compare_exchange_strong(open, nudged_state, std::memory_order_acq_rel)) state_.notify_all();
  }

 private:
  static constexpr int open_state = 0;
  static constexpr int nudged_state = 1;
  static constexpr int finished_state = 2;
  std::atomic<int> state_{open_state};  ///< an int, because a futex is one
};

/// Storage for the result of one operation that a thread waits for; see Done::into.
///
/// @code
/// Slot<bool> slot;
/// backend.submit(IsLockedRequest{.key = key}, {}, Done<bool>::into(slot));
/// if (!slot.completion.finished()) backend.wait(slot.completion);
/// const bool locked = std::move(*slot.result).value_or_throw();
/// @endcode
template <class T>
struct Slot {
  /// Finished after `result` was set.
  Completion completion;
  /// Empty until the operation is completed. Read it only after `completion` is finished.
  std::optional<Result<T>> result;
};

namespace detail {

/// A completion that waits for its turn on this thread.
class HOLDFAST_EXPORT Deferred {
 public:
  Deferred() = default;
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  virtual ~Deferred() = default;
  virtual void run() = 0;

 private:
  friend class Trampoline;
  Deferred* next_ = nullptr;
};

/// Runs completions of one thread one after another instead of one inside another, so that a chain of any
/// length needs no more stack than one link.
class HOLDFAST_EXPORT Trampoline {
 public:
  /// True on a thread where the next completion must be deferred.
  [[nodiscard]] static bool busy() noexcept;
  /// True on a thread that is running a completion now.
  [[nodiscard]] static bool completing() noexcept;
  static void defer(std::unique_ptr<Deferred> work) noexcept;
  /// Runs `work` now, then all completions that were deferred meanwhile. Requires that the thread is not
  /// busy.
  static void run(Deferred& work) noexcept;
  /// Marks the thread busy; the destructor runs the completions that were deferred meanwhile.
  class Scope {
   public:
    Scope() noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  /// Runs all deferred completions of this thread now: for a thread that is about to block in a completion.
  static void drain() noexcept;
};

}  // namespace detail

/// The callback of one operation: move-only, called exactly once with the operation's Result, on the thread
/// that finishes the operation. The header's description shows how an engine calls it.
///
/// The callback must not throw (std::terminate). It must not block either, except in LockBackend::wait: it
/// may run on the thread that reads the answers of all operations. An engine calls it outside its mutexes and
/// transactions. A completion may start another operation without deepening the stack: a completion that
/// comes up while the thread is already running one is deferred until that one returns.
///
/// Not thread-safe: a Done is called, moved and destroyed by one thread at a time. If it is destroyed without
/// a call, its operation never completes, and a thread that waits for it waits forever.
template <class T>
class Done {
 public:
  /// Returns a Done that stores the result in `slot` and wakes the thread that waits for it. The slot must
  /// outlive the operation. A thread must wait for it (LockBackend::wait): that thread may be the one that
  /// does the operation's I/O. No allocation.
  static Done into(Slot<T>& slot) noexcept {
    Done done;
    done.slot_ = &slot;
    return done;
  }

  /// Wraps `function`, which is called with a `Result<T>` and destroyed after that. One allocation.
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Done> && std::is_invocable_v<F&, Result<T>>)
  Done(F function) : call_(std::make_unique<Call<F>>(std::move(function))) {}

  /// Moves the callback; `other` is empty and must not be called.
  Done(Done&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)), call_(std::move(other.call_)) {}
  /// Replaces the callback; the old one is destroyed without being called.
  Done& operator=(Done&& other) noexcept {
    slot_ = std::exchange(other.slot_, nullptr);
    call_ = std::move(other.call_);
    return *this;
  }

  /// Returns a Done that calls `look(const Result<T>&)` and then passes the result on to `done`. `look` must
  /// not throw or block. A thread that waits for `done` thereby waits for the returned one: is_awaited() is
  /// the same. For decorators.
  template <class Look>
  static Done looked_at(Done done, Look look) {
    Done first;
    first.call_ = std::make_unique<LookedAt<Look>>(std::move(done), std::move(look));
    return first;
  }

  /// Returns true if a thread waits for the result (with LockBackend::wait). The engine may then leave the
  /// I/O to that thread; otherwise a thread of the engine must do it.
  [[nodiscard]] bool is_awaited() const noexcept {
    return slot_ != nullptr || (call_ != nullptr && call_->awaited);
  }

  /// Completes the operation with `result`. Requires that this Done was neither called nor moved from before.
  /// The callback runs before this returns, or, if this thread is already running a completion, after that
  /// one.
  void operator()(Result<T> result) noexcept {
    if (slot_ != nullptr) {
      // After finish() the waiting thread may destroy the slot, so nothing touches it afterwards.
      Slot<T>* slot = std::exchange(slot_, nullptr);
      slot->result.emplace(std::move(result));
      slot->completion.finish();
      return;
    }
    auto call = std::move(call_);
    call->result.emplace(std::move(result));
    // Not deferred: it runs no code of the caller, and a thread may wait in a completion for the result that
    // it passes on.
    if (call->hands_on) return call->run();
    if (detail::Trampoline::busy()) {
      detail::Trampoline::defer(std::move(call));
      return;
    }
    detail::Trampoline::run(*call);
  }

 private:
  Done() noexcept = default;

  struct AnyCall : detail::Deferred {
    std::optional<Result<T>> result;
    bool hands_on = false;  ///< to another Done, which is deferred if necessary
    bool awaited = false;
  };
  template <class F>
  struct Call final : AnyCall {
    explicit Call(F f) : function(std::move(f)) {}
    void run() noexcept override { function(std::move(*this->result)); }
    F function;
  };
  template <class Look>
  struct LookedAt final : AnyCall {
    LookedAt(Done d, Look l) : done(std::move(d)), look(std::move(l)) {
      this->hands_on = true;
      this->awaited = done.is_awaited();
    }
    void run() noexcept override {
      look(static_cast<const Result<T>&>(*this->result));
      done(*std::move(this->result));
    }
    Done done;
    Look look;
  };

  Slot<T>* slot_ = nullptr;
  std::unique_ptr<AnyCall> call_;
};

}  // namespace holdfast
