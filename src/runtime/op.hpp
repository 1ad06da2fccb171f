#pragma once

#include <atomic>
#include <coroutine>
#include <exception>
#include <holdfast/done.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/frame_memory.hpp"

namespace holdfast::runtime {

/// One operation of a policy, written once: a coroutine that ends with a Result<T>. An Error thrown in it is
/// its result, so `value_or_throw` works inside as it does outside. It begins when it is awaited, run or
/// started, on that thread, and resumes on the thread that ended its last step (see Flow).
///
/// Its parameters must be values, or owned by an object that outlives it: a caller that only starts it is
/// gone before it ends. g++ 12 destroys aggregates with destructors twice that are made inside a co_await
/// expression (docs/adr/0006-arguments-are-views.md): give such arguments a name first.
template <class T>
class [[nodiscard]] Op {
 public:
  class promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  Op(Op&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Op& operator=(Op&&) = delete;
  ~Op() {
    if (handle_) handle_.destroy();
  }

  /// Requires a blocking Flow: then no step suspends, and the operation ends before this returns.
  [[nodiscard]] static Result<T> run(Op op) {
    op.handle_.resume();
    return *std::move(op.handle_.promise().result_);
  }

  /// Completes `done` after the operation has ended and its frame is destroyed.
  static void start(Op op, Done<T> done) {
    const auto handle = std::exchange(op.handle_, nullptr);
    handle.promise().done_.emplace(std::move(done));
    handle.resume();
  }

  /// Awaits it from another operation. An operation that ends at once does not deepen the stack.
  auto operator co_await() && noexcept { return Awaiter{handle_}; }

 private:
  struct Awaiter {
    Handle inner;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> outer) {
      auto& promise = inner.promise();
      promise.outer_ = outer;
      inner.resume();
      // This function races with the end of the inner operation. The second of the two resumes the outer one.
      return !promise.one_of_two_.exchange(true, std::memory_order_acq_rel);
    }
    /// Valid as long as the operation.
    [[nodiscard]] Result<T>&& await_resume() { return *std::move(inner.promise().result_); }
  };

  explicit Op(Handle handle) noexcept : handle_(handle) {}
  Handle handle_;
};

template <class T>
class Op<T>::promise_type {
 public:
  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { free_frame(frame, size); }

  Op get_return_object() noexcept { return Op(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept { return End{}; }
  template <class Value>
    requires std::is_convertible_v<Value, Result<T>>
  void return_value(Value&& value) {
    result_.emplace(std::forward<Value>(value));
  }
  void unhandled_exception() noexcept {
    try {
      throw;
    } catch (const Error& error) {
      result_.emplace(error);
    } catch (const std::exception& error) {
      result_.emplace(Error(ErrorCode::Internal, "the operation failed locally", error.what()));
    } catch (...) {
      result_.emplace(Error(ErrorCode::Internal, "an exception was thrown that is not a std::exception"));
    }
  }

 private:
  friend class Op;
  struct End {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(Handle handle) const noexcept {
      auto& promise = handle.promise();
      if (promise.done_) {
        auto done = *std::move(promise.done_);
        auto result = *std::move(promise.result_);
        handle.destroy();
        done(std::move(result));
      } else if (promise.one_of_two_.exchange(true, std::memory_order_acq_rel)) {
        promise.outer_.resume();
      }
    }
    void await_resume() const noexcept {}
  };

  std::optional<Result<T>> result_;
  std::optional<Done<T>> done_;    ///< of a started one
  std::coroutine_handle<> outer_;  ///< of an awaited one
  std::atomic<bool> one_of_two_ = false;
};

}  // namespace holdfast::runtime
