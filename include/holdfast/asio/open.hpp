#pragma once

#include <holdfast/asio/call.hpp>
#include <holdfast/asio/register.hpp>
#include <holdfast/asio/tasks.hpp>
#include <holdfast/open.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace holdfast {

// These functions open something without blocking the thread of an execution context: a thread of the library
// resolves names, connects and checks files. As with every function of this header, the handler is posted to
// its associated executor, or to `executor`; text arguments must be valid until the function returns.
//
// Cancelled, they complete with Aborted at once. A connection or file that is still being opened is closed in
// the background when its own timeout has passed at the latest.

namespace detail {

template <class Token>
auto async_open(const asio::any_io_executor& executor, std::string url, Instruments instruments,
                Token&& token) {
  return async_call<Holdfast>(
      executor,
      [url = std::move(url), instruments = std::move(instruments)](std::stop_token stop,
                                                                   Done<Holdfast> done) mutable {
        open(std::move(url), std::move(instruments), std::move(stop), std::move(done));
      },
      std::forward<Token>(token));
}

}  // namespace detail

/// Opens an engine; see `open` for the URLs. Completes with `void(std::exception_ptr, Holdfast)`; the
/// Holdfast is empty on an error.
///
/// Errors: InvalidArgument (the URL, or a file that is none of Holdfast), ServiceUnavailable, NetworkTimeout,
/// AuthFailed, RateLimited, Aborted, Internal.
template <class Token = asio::use_awaitable_t<>>
  requires(!std::is_same_v<std::remove_cvref_t<Token>, Instruments>)
auto async_open(const asio::any_io_executor& executor, std::string_view url, Token&& token = {}) {
  return detail::async_open(executor, std::string(url), Instruments(), std::forward<Token>(token));
}

/// Opens an engine with instruments that observe it. They are copied.
template <class Token = asio::use_awaitable_t<>>
auto async_open(const asio::any_io_executor& executor, std::string_view url, const Instruments& instruments,
                Token&& token = {}) {
  return detail::async_open(executor, std::string(url), instruments, std::forward<Token>(token));
}
/// The same for instruments that are written in the call. With g++ 12 and `co_await` it does not compile:
/// name the instruments before the expression.
template <class Token = asio::use_awaitable_t<>>
auto async_open(const asio::any_io_executor& executor, std::string_view url, Instruments&& instruments,
                Token&& token = {}) {
  static_assert(detail::survives_co_await<Instruments, std::decay_t<Token>>,
                "g++ 12 would destroy these instruments twice: give them a name before the co_await "
                "expression");
  return detail::async_open(executor, std::string(url), std::move(instruments), std::forward<Token>(token));
}

/// Opens the tasks of an engine; see Holdfast::tasks. Completes with `void(std::exception_ptr, AsyncTasks)`;
/// the AsyncTasks has this executor, and is empty on an error. If it is cancelled, `holdfast` keeps a store
/// that is opened all the same, for the next call.
///
/// Errors: those of async_open; InvalidArgument also if `holdfast` is empty or an option is invalid.
template <class Token = asio::use_awaitable_t<>>
auto async_tasks(const asio::any_io_executor& executor, const Holdfast& holdfast, const TaskOptions& options,
                 Token&& token = {}) {
  static_assert(detail::safe_to_await_with<TaskOptions>);
  return async_call<Tasks>(
      executor,
      [holdfast, options](std::stop_token stop, Done<Tasks> done) {
        holdfast.tasks(options, std::move(stop), std::move(done));
      },
      std::forward<Token>(token), [executor](Tasks tasks) { return AsyncTasks(executor, std::move(tasks)); });
}
/// The same with Holdfast::task_options().
template <class Token = asio::use_awaitable_t<>>
  requires(!std::is_same_v<std::remove_cvref_t<Token>, TaskOptions>)
auto async_tasks(const asio::any_io_executor& executor, const Holdfast& holdfast, Token&& token = {}) {
  const auto options = holdfast ? holdfast.task_options() : TaskOptions();
  return async_tasks(executor, holdfast, options, std::forward<Token>(token));
}

/// Opens a register of an engine's task store; see Holdfast::fenced_register. Completes with
/// `void(std::exception_ptr, AsyncRegister)`; the AsyncRegister has this executor, and is empty on an error.
/// Cancellation and errors as with async_tasks; InvalidArgument also if the name is invalid.
template <class Token = asio::use_awaitable_t<>>
auto async_register(const asio::any_io_executor& executor, const Holdfast& holdfast, std::string_view name,
                    Token&& token = {}) {
  return async_call<FencedRegister>(
      executor,
      [holdfast, name = std::string(name)](std::stop_token stop, Done<FencedRegister> done) {
        holdfast.fenced_register(name, std::move(stop), std::move(done));
      },
      std::forward<Token>(token),
      [executor](FencedRegister fenced) { return AsyncRegister(executor, std::move(fenced)); });
}

}  // namespace holdfast
