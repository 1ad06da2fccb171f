#pragma once

#include <holdfast/error.hpp>
#include <type_traits>
#include <utility>
#include <variant>

namespace holdfast {

/// A value, or the Error that prevented it.
///
/// Functions that parse or open, backends and completion callbacks return errors this way; the blocking
/// functions of Locks and Tasks throw them instead. To turn an error into an exception, use value_or_throw().
///
/// @code
/// const auto fence = holdfast::Fence::parse(text);
/// if (!fence) return fence.error();
/// store(fence->value());
/// @endcode
template <class T>
class [[nodiscard]] Result {
 public:
  /// Constructs a success.
  Result(T&& value) : state_(std::in_place_index<0>, std::move(value)) {}
  /// Constructs a success.
  Result(const T& value) : state_(std::in_place_index<0>, value) {}
  /// Constructs a success from a type that converts to T.
  template <class U>
    requires(std::is_convertible_v<U, T> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error> &&
             !std::is_same_v<std::remove_cvref_t<U>, Result>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  /// Constructs a failure.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  /// Returns whether there is a value.
  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  /// Returns ok().
  explicit operator bool() const noexcept { return ok(); }

  /// Returns the value. Requires ok(), as do the next four functions: they do not check.
  [[nodiscard]] T& operator*() & { return *std::get_if<0>(&state_); }
  /// Returns the value. Requires ok().
  [[nodiscard]] const T& operator*() const& { return *std::get_if<0>(&state_); }
  /// Returns the value, to move from. Requires ok().
  [[nodiscard]] T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  /// Accesses a member of the value. Requires ok().
  [[nodiscard]] T* operator->() { return std::get_if<0>(&state_); }
  /// Accesses a member of the value. Requires ok().
  [[nodiscard]] const T* operator->() const { return std::get_if<0>(&state_); }

  /// Returns the error. Requires !ok(): it does not check.
  [[nodiscard]] const Error& error() const { return *std::get_if<1>(&state_); }

  /// Moves the value out, or throws the error. Call it on a temporary or with std::move.
  [[nodiscard]] T value_or_throw() && {
    if (!ok()) throw error();
    return std::move(*std::get_if<0>(&state_));
  }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value: `return Ok{};` in a function that returns Status.
struct Ok {};
/// The result of a function that only succeeds or fails.
using Status = Result<Ok>;

}  // namespace holdfast
