#pragma once

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

/// The end of one operation that a thread waits for.
class Completion {
 public:
  void finish() noexcept {
    state_.store(finished_state, std::memory_order_release);
    state_.notify_all();
  }
  [[nodiscard]] bool finished() const noexcept {
    return state_.load(std::memory_order_acquire) == finished_state;
  }
  void wait() noexcept {
    while (!finished()) wait_for_news();
  }

  /// Returns when it is finished, or after a nudge: for engines whose waiting threads take turns at the I/O.
  void wait_for_news() noexcept {
    state_.wait(open_state, std::memory_order_acquire);
    int nudged = nudged_state;
    state_.compare_exchange_strong(nudged, open_state, std::memory_order_acq_rel);
  }
  void nudge() noexcept {
    int open = open_state;
    if (state_.compare_exchange_strong(open, nudged_state, std::memory_order_acq_rel)) state_.notify_all();
  }

 private:
  static constexpr int open_state = 0;
  static constexpr int nudged_state = 1;
  static constexpr int finished_state = 2;
  std::atomic<int> state_{open_state};  ///< an int, because that is what a futex is
};

/// Where a waiting thread finds its result.
template <class T>
struct Slot {
  Completion completion;
  std::optional<Result<T>> result;
};

namespace detail {

/// A piece of work that waits for its turn on this thread.
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
  /// Runs it now, and then what was deferred meanwhile. Requires that the thread is not busy.
  static void run(Deferred& work) noexcept;
  /// Marks the thread busy; on destruction runs what was deferred meanwhile.
  class Scope {
   public:
    Scope() noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  /// Runs everything deferred on this thread now: for a thread that is about to block in a completion.
  static void drain() noexcept;
};

}  // namespace detail

/// The callback of one operation: move-only, called exactly once with the operation's Result, on whichever
/// thread finishes it. It must not throw (std::terminate), nor
/// block other than in LockBackend::wait: it may run on the thread that reads everyone's answers. An engine
/// calls it outside its mutexes and transactions. A completion that starts another operation does not deepen
/// the stack.
template <class T>
class Done {
 public:
  /// Stores the result and wakes the thread that waits for the slot. The slot must outlive the operation, and
  /// somebody must wait for it: its thread may be the one that does the operation's I/O.
  static Done into(Slot<T>& slot) noexcept {
    Done done;
    done.slot_ = &slot;
    return done;
  }

  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Done> && std::is_invocable_v<F&, Result<T>>)
  Done(F function) : call_(std::make_unique<Call<F>>(std::move(function))) {}

  Done(Done&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)), call_(std::move(other.call_)) {}
  Done& operator=(Done&& other) noexcept {
    slot_ = std::exchange(other.slot_, nullptr);
    call_ = std::move(other.call_);
    return *this;
  }

  /// `look(result)`, which must not throw nor block, before the result goes on to `done`. Whoever waits for
  /// `done` waits for this one.
  template <class Look>
  static Done looked_at(Done done, Look look) {
    Done first;
    first.call_ = std::make_unique<LookedAt<Look>>(std::move(done), std::move(look));
    return first;
  }

  /// True if a thread waits for it (with LockBackend::wait).
  [[nodiscard]] bool is_awaited() const noexcept {
    return slot_ != nullptr || (call_ != nullptr && call_->awaited);
  }

  /// Requires that it was not called before.
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
    // It runs nothing of the caller's itself. And a thread may wait, in a completion, for what it hands on.
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
    bool hands_on = false;  ///< to another Done, which awaits its turn if it must
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
