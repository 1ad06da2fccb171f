#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

// Arguments of operations are trivially destructible: numbers, durations, views of text, and aggregates of
// these. g++ 12 destroys other types twice if they are written in the braces of a co_await expression
// (docs/adr/0006-arguments-are-views.md). So an operation that may outlive the call that started it copies
// its arguments into the types declared here.

/// `type` owns a copy of an argument of type T, is constructed from it, and converts back to it. Not defined
/// for other types, because they may be views: specialise it for each new type of argument.
template <class T>
struct OwnedArgument;

/// The type that owns a copy of an argument of type T.
template <class T>
using Owned = typename OwnedArgument<T>::type;

/// Returns a copy of an argument that owns its text.
template <class T>
[[nodiscard]] Owned<T> owned(const T& argument) {
  return Owned<T>(argument);
}

/// Base of OwnedArgument for types that contain no view: they are their own copy.
template <class T>
struct OwnedAsItIs {
  using type = T;
};

template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
struct OwnedArgument<T> : OwnedAsItIs<T> {};
template <class Rep, class Period>
struct OwnedArgument<std::chrono::duration<Rep, Period>> : OwnedAsItIs<std::chrono::duration<Rep, Period>> {};
template <class Clock, class Duration>
struct OwnedArgument<std::chrono::time_point<Clock, Duration>>
    : OwnedAsItIs<std::chrono::time_point<Clock, Duration>> {};

template <>
struct OwnedArgument<std::string_view> {
  using type = std::string;
};
template <class T>
struct OwnedArgument<std::optional<T>> {
  using type = std::optional<Owned<T>>;
};

/// `of(aggregate)` returns a tuple of references to all members of the aggregate, by a structured binding, so
/// that a member that is added to the aggregate but not here is a compile error.
template <class Aggregate>
struct MembersOf;

/// A copy of an aggregate that owns each of its members.
template <class Aggregate>
class OwnedAggregate {
 public:
  /// Copies each member.
  explicit OwnedAggregate(const Aggregate& views)
      : views_(views), members_(MembersOf<Aggregate>::of(views)) {}
  /// Returns the aggregate with views of the copies, valid while this object lives.
  operator Aggregate() const {
    Aggregate views = views_;
    MembersOf<Aggregate>::of(views) = members_;
    return views;
  }

 private:
  template <class... Members>
  static std::tuple<Owned<std::remove_const_t<Members>>...> owned(std::tuple<Members&...>);

  Aggregate views_;  ///< its views may dangle; members_ has the copies
  decltype(owned(MembersOf<Aggregate>::of(std::declval<const Aggregate&>()))) members_;
};

template <class T>
  requires requires(const T& argument) { MembersOf<T>::of(argument); }
struct OwnedArgument<T> {
  using type = OwnedAggregate<T>;
};

}  // namespace holdfast::detail
