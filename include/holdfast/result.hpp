#pragma once

#include <holdfast/error.hpp>
#include <type_traits>
#include <utility>
#include <variant>

namespace holdfast {

/// A value or the Error that took its place. Inside the library failures travel as values; the blocking
/// API turns them into exceptions with `value_or_throw`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  template <class U>
    requires(std::is_convertible_v<U, T> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error> &&
             !std::is_same_v<std::remove_cvref_t<U>, Result>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// Requires ok().
  [[nodiscard]] T& operator*() & { return *std::get_if<0>(&state_); }
  [[nodiscard]] const T& operator*() const& { return *std::get_if<0>(&state_); }
  [[nodiscard]] T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] T* operator->() { return std::get_if<0>(&state_); }
  [[nodiscard]] const T* operator->() const { return std::get_if<0>(&state_); }

  /// Requires !ok().
  [[nodiscard]] const Error& error() const { return *std::get_if<1>(&state_); }

  [[nodiscard]] T value_or_throw() && {
    if (!ok()) throw error();
    return std::move(*std::get_if<0>(&state_));
  }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value.
struct Ok {};
using Status = Result<Ok>;

}  // namespace holdfast
