#pragma once

#include <holdfast/asio/call.hpp>  // before Asio's headers

#include <asio/associator.hpp>
#include <asio/async_result.hpp>
#include <asio/use_awaitable.hpp>
#include <exception>
#include <holdfast/result.hpp>
#include <type_traits>
#include <utility>

namespace holdfast {

/// A completion token that passes a failure on as a value: an operation with the signature
/// `void(std::exception_ptr, T)` completes with `void(Result<T>)`, one with `void(std::exception_ptr)` with
/// `void(Status)`. `Token` is the token that receives the result. Use `as_result` to make one.
template <class Token>
class AsResult {
 public:
  constexpr AsResult() = default;
  /// Adapts `inner`.
  constexpr explicit AsResult(Token inner) : token(std::move(inner)) {}

  /// Adapts another token.
  template <class Other>
  [[nodiscard]] constexpr AsResult<std::decay_t<Other>> operator()(Other&& other) const {
    return AsResult<std::decay_t<Other>>(std::forward<Other>(other));
  }

  Token token;  ///< receives the Result
};

/// Completes an operation of this library with a Result in place of an exception:
///
///     auto guard = co_await locks.lock("k", {}, holdfast::as_result);  // a Result<AsyncGuard>
///     if (!guard) co_return report(guard.error());
///
/// Alone it stands for `as_result(asio::use_awaitable)`. It adapts any other token too:
/// `as_result([](Result<AsyncGuard> guard) { … })`, `as_result(asio::use_future)`,
/// `as_result(asio::bind_cancellation_slot(slot, asio::use_awaitable))`. The executor, allocator and
/// cancellation slot that are associated with the adapted handler stay so. An exception that is not a
/// holdfast::Error, which no operation of this library completes with, becomes an Internal error.
inline constexpr AsResult<asio::use_awaitable_t<>> as_result;

namespace detail {

inline Error error_in(const std::exception_ptr& failed) {
  try {
    std::rethrow_exception(failed);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {ErrorCode::Internal, "the operation failed with an exception that is not a holdfast::Error",
            error.what()};
  } catch (...) {
    return {ErrorCode::Internal, "the operation failed with an exception that is not a std::exception"};
  }
}

/// Takes what an operation completes with, and passes a Result on to the handler.
template <class Handler>
class ResultHandler {
 public:
  explicit ResultHandler(Handler inner) : handler(std::move(inner)) {}

  template <class T>
  void operator()(const std::exception_ptr& failed, T value) {
    std::move(handler)(failed ? Result<T>(error_in(failed)) : Result<T>(std::move(value)));
  }
  void operator()(const std::exception_ptr& failed) { (*this)(failed, Ok{}); }

  Handler handler;
};

template <class Signature>
struct ResultSignature;
template <class T>
struct ResultSignature<void(std::exception_ptr, T)> {
  using type = void(Result<std::decay_t<T>>);
};
template <>
struct ResultSignature<void(std::exception_ptr)> {
  using type = void(Status);
};

}  // namespace detail
}  // namespace holdfast

/// @cond INTERNAL

/// As that of `asio::as_tuple`: begins with the adapted token's own handler, in a ResultHandler.
template <class Token, class Signature>
class asio::async_result<holdfast::AsResult<Token>, Signature>
    : public asio::async_result<Token, typename holdfast::detail::ResultSignature<Signature>::type> {
 public:
  template <class Initiation, class Adapter, class... Arguments>
  static auto initiate(Initiation&& initiation, Adapter&& adapter, Arguments&&... arguments) {
    auto token = std::forward<Adapter>(adapter).token;
    // Not the `initiate` of the token's async_result: in Asio 1.22 that of `use_future` has none.
    return asio::async_initiate<Token, typename holdfast::detail::ResultSignature<Signature>::type>(
        [begin = std::forward<Initiation>(initiation)](auto&& handler, auto&&... all) mutable {
          using Handler = std::decay_t<decltype(handler)>;
          std::move(begin)(holdfast::detail::ResultHandler<Handler>(std::forward<decltype(handler)>(handler)),
                           std::forward<decltype(all)>(all)...);
        },
        token, std::forward<Arguments>(arguments)...);
  }
};

/// The executor, the allocator and the cancellation slot of the handler inside.
template <template <class, class> class Associator, class Handler, class Default>
struct asio::associator<Associator, holdfast::detail::ResultHandler<Handler>, Default>
    : Associator<Handler, Default> {
  using Adapter = holdfast::detail::ResultHandler<Handler>;
  static typename Associator<Handler, Default>::type get(const Adapter& adapter) noexcept {
    return Associator<Handler, Default>::get(adapter.handler);
  }
  static auto get(const Adapter& adapter, const Default& otherwise) noexcept
      -> decltype(Associator<Handler, Default>::get(adapter.handler, otherwise)) {
    return Associator<Handler, Default>::get(adapter.handler, otherwise);
  }
};

/// @endcond
