#pragma once

#include <cstdint>
#include <holdfast/asio/call.hpp>
#include <holdfast/asio/locks.hpp>
#include <holdfast/fenced_register.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast {

/// A FencedRegister for coroutines and callbacks. Cheap to copy. All functions may be called from any thread.
/// This object may end while operations are under way. `async_register` makes one without blocking.
///
/// Completion, executor, arguments and cancellation as with AsyncTasks.
///
/// *Errors* of all of them: InvalidArgument (an argument, or this object is empty), Aborted, and those of the
/// engine: ServiceUnavailable, NetworkTimeout (whether a write took effect is unknown), RateLimited,
/// AuthFailed, Internal. Further ones are in the comments.
class AsyncRegister {
 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;
  /// A register's value.
  using Value = FencedRegister::Value;

  /// Makes an empty one: its operations complete with InvalidArgument, `blocking` throws it.
  AsyncRegister() noexcept = default;
  /// Wraps a register; handlers without an executor are posted to `executor`.
  AsyncRegister(asio::any_io_executor executor, FencedRegister fenced)
      : executor_(std::move(executor)), register_(std::move(fenced)) {}
  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  /// Returns false if it is empty: default-constructed.
  [[nodiscard]] explicit operator bool() const noexcept { return register_.has_value(); }
  /// Returns the same register for code that blocks.
  [[nodiscard]] const FencedRegister& blocking() const {
    if (!register_) throw empty();
    return *register_;
  }

  /// Reads the value. T: std::optional<Value>, empty if it was never written.
  template <class Token = asio::use_awaitable_t<>>
  auto get(Token&& token = {}) const {
    return call<std::optional<Value>>(
        std::forward<Token>(token),
        [](const FencedRegister& fenced, auto&&... all) { fenced.get(std::forward<decltype(all)>(all)...); });
  }
  /// Writes UTF-8 text under a fence. T: std::uint64_t, the version. StaleFence if a higher fence of that
  /// lock has been seen, WrongLock if the register is bound to another lock. The first write binds it.
  template <class Token = asio::use_awaitable_t<>>
  auto put(std::string_view text, const FencingTokenView& fence, Token&& token = {}) const {
    return call<std::uint64_t>(
        std::forward<Token>(token),
        [](const FencedRegister& fenced, auto&&... all) { fenced.put(std::forward<decltype(all)>(all)...); },
        text, fence);
  }
  /// Writes text under the fence of a guard, which may end before the operation starts. T and errors as
  /// above; InvalidArgument if the guard is empty.
  template <class Token = asio::use_awaitable_t<>>
  auto put(std::string_view text, const AsyncGuard& guard, Token&& token = {}) const {
    return async_call<std::uint64_t>(
        executor_,
        [fenced = register_, text = std::string(text),
         fence = guard ? std::optional(guard.token()) : std::nullopt](std::stop_token stop,
                                                                      Done<std::uint64_t> done) {
          if (!fenced) return done(empty());
          if (!fence) return done(Error(ErrorCode::InvalidArgument, "this guard is empty: it holds no lock"));
          fenced->put(text, *fence, std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }
  /// Raises the fence without writing, so that older holders are refused at once. T: std::optional<Value>,
  /// the present value; empty, and nothing raised, if it was never written. StaleFence, WrongLock.
  template <class Token = asio::use_awaitable_t<>>
  auto bind(const FencingTokenView& fence, Token&& token = {}) const {
    return call<std::optional<Value>>(
        std::forward<Token>(token),
        [](const FencedRegister& fenced, auto&&... all) { fenced.bind(std::forward<decltype(all)>(all)...); },
        fence);
  }
  /// Binds the register to this lock, whatever it was bound to, for operators. T: bool, false if it was never
  /// written.
  template <class Token = asio::use_awaitable_t<>>
  auto rebind(const FencingTokenView& fence, Token&& token = {}) const {
    return call<bool>(
        std::forward<Token>(token),
        [](const FencedRegister& fenced, auto&&... all) {
          fenced.rebind(std::forward<decltype(all)>(all)...);
        },
        fence);
  }
  /// Does the same only if the register is bound to a lock of this authority. T: std::optional<Value>, the
  /// value as it is then; empty if it was never written.
  template <class Token = asio::use_awaitable_t<>>
  auto rebind_from(std::string_view authority, const FencingTokenView& fence, Token&& token = {}) const {
    return call<std::optional<Value>>(
        std::forward<Token>(token),
        [](const FencedRegister& fenced, auto&&... all) {
          fenced.rebind_from(std::forward<decltype(all)>(all)...);
        },
        authority, fence);
  }

 private:
  /// `operation(register, arguments..., stop, done)`
  template <class T, class Token, class Operation, class... Arguments>
  auto call(Token&& token, Operation operation, const Arguments&... arguments) const {
    auto begin = detail::with_arguments(
        register_,
        [operation](const std::optional<FencedRegister>& fenced, auto&&... all) {
          operation(*fenced, std::forward<decltype(all)>(all)...);
        },
        arguments...);
    return async_call<T>(
        executor_,
        [begin = std::move(begin), is_empty = !register_](std::stop_token stop, Done<T> done) mutable {
          if (is_empty) return done(empty());
          begin(std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  static Error empty() {
    return {ErrorCode::InvalidArgument, "this AsyncRegister is empty: open a register first"};
  }

  asio::any_io_executor executor_ = asio::system_executor();
  std::optional<FencedRegister> register_;
};

}  // namespace holdfast
