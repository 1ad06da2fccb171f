#pragma once

// Asio 1.22 does not know that clang has the coroutines of C++20.
#if defined(__clang__) && !defined(ASIO_HAS_CO_AWAIT)
#ifdef ASIO_DETAIL_CONFIG_HPP
#error "compile with -DASIO_HAS_CO_AWAIT, or include <holdfast/asio.hpp> before the headers of Asio"
#endif
#define ASIO_HAS_CO_AWAIT 1
#endif

#include <algorithm>
#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/execution/context.hpp>
#include <asio/execution_context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/query.hpp>
#include <asio/system_context.hpp>
#include <asio/system_executor.hpp>
#include <asio/use_awaitable.hpp>
#include <condition_variable>
#include <exception>
#include <functional>
#include <holdfast/done.hpp>
#include <holdfast/owned.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace holdfast {
namespace detail {

/// The calls whose handlers are still to be posted to an execution context. When the context is destroyed
/// first, they are abandoned, so that an answer that comes later does not touch freed memory.
class PendingCalls {
 public:
  class Call {
   public:
    Call() = default;
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    virtual ~Call() = default;
    /// Stops the operation and destroys the handler, because the context is being destroyed. Not under the
    /// mutex.
    virtual void abandon() noexcept = 0;
  };
  using List = std::list<std::shared_ptr<Call>>;

  [[nodiscard]] static std::shared_ptr<PendingCalls> of(asio::execution_context& context) {
    return asio::use_service<Service>(context).calls;
  }

  /// Returns the call's place in the list; nothing if the context is already being destroyed.
  [[nodiscard]] std::optional<List::iterator> enter(std::shared_ptr<Call> call) {
    const std::lock_guard lock(mutex_);
    if (closed_) return std::nullopt;
    return calls_.insert(calls_.end(), std::move(call));
  }

  /// Runs `post`, which posts the handler, unless the context is gone; the context is not destroyed
  /// meanwhile. All that the call has of the context, executors above all, must be destroyed when `post`
  /// returns. Not under the mutex: an executor that is shut down destroys what is posted at once, and that
  /// may own further calls.
  template <class Post>
  void leave(List::iterator place, Post&& post) {
    std::shared_ptr<Call> last;
    const auto posting = begin_post(place, last);
    if (posting) std::forward<Post>(post)();
  }

 private:
  /// A post under way, which the context waits for.
  struct EndPost {
    void operator()(PendingCalls* calls) const noexcept {
      const std::lock_guard lock(calls->mutex_);
      calls->posting_.erase(std::ranges::find(calls->posting_, std::this_thread::get_id()));
      calls->posted_.notify_all();
    }
  };
  using Posting = std::unique_ptr<PendingCalls, EndPost>;

  Posting begin_post(List::iterator place, std::shared_ptr<Call>& last) {
    const std::lock_guard lock(mutex_);
    if (closed_) return nullptr;
    posting_.push_back(std::this_thread::get_id());
    last = std::move(*place);
    calls_.erase(place);
    return Posting(this);
  }

  class Service final : public asio::execution_context::service {
   public:
    inline static asio::execution_context::id id;
    explicit Service(asio::execution_context& context) : service(context) {}
    void shutdown() noexcept override { calls->close(); }
    const std::shared_ptr<PendingCalls> calls = std::make_shared<PendingCalls>();
  };

  void close() noexcept {
    List left;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      left.swap(calls_);
    }
    for (const auto& call : left) call->abandon();
    std::unique_lock lock(mutex_);
    // Except for a post of this thread's own: an executor may have run the handler inside, which ends the
    // context.
    posted_.wait(lock, [this] {
      return std::ranges::all_of(posting_, [](auto id) { return id == std::this_thread::get_id(); });
    });
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  bool closed_ = false;
  List calls_;
  std::vector<std::thread::id> posting_;
};

template <class Executor>
asio::execution_context& context_of(const Executor& executor) {
  if constexpr (asio::can_query<const Executor&, asio::execution::context_t>::value) {
    return asio::query(executor, asio::execution::context);
  } else if constexpr (requires { executor.context(); }) {
    return executor.context();  // an executor of the Networking TS
  } else {
    return asio::system_executor().context();  // where the one of asio::use_future posts
  }
}

/// How a value reaches the handler: as it is, unless what travels is something else.
template <class T>
struct HandOver {
  static T of(T value) { return value; }
};

/// What the handler of an operation takes whose result is a T. An Ok says nothing, so it is left out.
template <class T>
struct CompletionSignature {
  using type = void(std::exception_ptr, T);
};
template <>
struct CompletionSignature<Ok> {
  using type = void(std::exception_ptr);
};

/// One call under way, from its initiation to the post of its handler.
template <class Raw, class Convert, class Handler, class Executor>
class AsioCall final : public PendingCalls::Call {
 public:
  using Value = std::invoke_result_t<Convert&, Raw>;
  using Received = decltype(HandOver<Value>::of(std::declval<Value>()));

  AsioCall(Handler handler, const Executor& executor, Convert convert)
      : calls_(PendingCalls::of(context_of(executor))),
        ends_(std::in_place, std::move(handler), std::move(convert), executor) {}

  /// `begin(stop, done)` starts the operation.
  template <class Begin>
  static void start(std::shared_ptr<AsioCall> call, Begin& begin) {
    const auto place = call->calls_->enter(call);
    if (!place) return call->abandon();
    call->place_ = *place;
    auto slot = asio::get_associated_cancellation_slot(call->ends_->handler);
    if (slot.is_connected()) {
      slot.assign([stop = call->stop_](asio::cancellation_type type) {
        // A copy: the operation may end inside, and its handler clear the slot that owns this function.
        if (type != asio::cancellation_type::none) std::stop_source(stop).request_stop();
      });
    }
    begin(call->stop_.get_token(),
          Done<Raw>([call](Result<Raw> result) { call->complete(std::move(result)); }));
  }

  void abandon() noexcept override {
    stop_.request_stop();
    ends_.reset();
  }

 private:
  /// What belongs to the context: destroyed when the handler was posted, or with the context.
  struct Ends {
    Ends(Handler h, Convert c, const Executor& executor)
        : handler(std::move(h)), convert(std::move(c)), work(executor) {}
    Handler handler;
    Convert convert;
    asio::executor_work_guard<Executor> work;
  };

  /// What is posted.
  struct Arrival {
    Handler handler;
    Result<Value> result;

    void operator()() {
      asio::get_associated_cancellation_slot(handler).clear();
      auto failed = result ? std::exception_ptr() : std::make_exception_ptr(result.error());
      if constexpr (std::is_same_v<Received, Ok>) {
        std::move(handler)(std::move(failed));
      } else if (result) {
        std::move(handler)(std::move(failed), HandOver<Value>::of(*std::move(result)));
      } else {
        std::move(handler)(std::move(failed), Received());
      }
    }
  };

  /// Aborted after a stop request, even if the engine, with the request already sent, can only report that
  /// the outcome is unknown.
  Error reported(const Error& error) const {
    if (!error.transient() || !stop_.stop_requested()) return error;
    return Error(ErrorCode::Aborted, "the caller stopped the operation; it may have taken effect",
                 error.what())
        .about(error.key(), error.lock_id());
  }

  void complete(Result<Raw> result) {
    calls_->leave(place_, [&] {
      auto ends = *std::move(ends_);
      ends_.reset();
      // Converted here: one that is posted and never run must end as a Value does, which does not block.
      auto value =
          result ? Result<Value>(ends.convert(*std::move(result))) : Result<Value>(reported(result.error()));
      // Always posted: a handler must not run on the thread that brings the answer.
      asio::post(ends.work.get_executor(), Arrival{std::move(ends.handler), std::move(value)});
    });
  }

  std::stop_source stop_;
  const std::shared_ptr<PendingCalls> calls_;
  PendingCalls::List::iterator place_;
  std::optional<Ends> ends_;
};

/// A function that runs on an executor when a thread of the library calls it: at most once, or each time if
/// it `Repeats`. Not at all if that executor's context is destroyed first. Calls must not overlap.
template <class F, bool Repeats = false>
class PostedLater {
 public:
  PostedLater(const asio::any_io_executor& executor, F function)
      : calls_(PendingCalls::of(context_of(executor))) {
    enter(executor, std::move(function));
  }
  PostedLater(const PostedLater&) = delete;
  PostedLater& operator=(const PostedLater&) = delete;
  ~PostedLater() {
    leave([](const Ends&) {});  // ends it
  }

  template <class... Arguments>
  void operator()(Arguments... arguments) {
    leave([&](Ends& ends) {
      if constexpr (Repeats) enter(ends.executor, ends.function);  // the context is not destroyed meanwhile
      asio::post(ends.executor, [function = std::move(ends.function), arguments...]() mutable {
        function(std::move(arguments)...);
      });
    });
  }

 private:
  struct Ends {
    // Not an aggregate: clang before 16 cannot construct one in place.
    Ends(asio::any_io_executor e, F f) : executor(std::move(e)), function(std::move(f)) {}
    asio::any_io_executor executor;
    F function;
  };
  struct Errand final : PendingCalls::Call {
    Errand(const asio::any_io_executor& executor, F function)
        : ends(std::in_place, executor, std::move(function)) {}
    void abandon() noexcept override { ends.reset(); }
    std::optional<Ends> ends;
  };

  void enter(const asio::any_io_executor& executor, F function) {
    errand_ = std::make_shared<Errand>(executor, std::move(function));
    place_ = calls_->enter(errand_);
    if (!place_) errand_->abandon();  // while the context is there still: it is being destroyed
  }
  template <class Last>
  void leave(Last&& last) {
    if (!place_) return;
    calls_->leave(*std::exchange(place_, std::nullopt), [&] {
      auto ends = *std::move(errand_->ends);
      errand_->ends.reset();
      last(ends);
    });
  }

  const std::shared_ptr<PendingCalls> calls_;
  std::shared_ptr<Errand> errand_;
  std::optional<PendingCalls::List::iterator> place_;
};

/// Returns a function that posts `callback`, which may be move-only, to the executor each time it is called.
template <class F>
std::function<void(bool)> posted_each_time(const asio::any_io_executor& executor, F callback) {
  auto shared = [callback = std::make_shared<F>(std::move(callback))](bool value) { (*callback)(value); };
  auto later = std::make_shared<PostedLater<decltype(shared), true>>(executor, std::move(shared));
  return [later = std::move(later)](bool value) { (*later)(value); };
}

/// Whether an argument of this type may be written in a co_await expression in any way, with g++ 12 too: see
/// docs/adr/0006-arguments-are-views.md. A std::function has constructors, so it may.
template <class T>
inline constexpr bool safe_to_await_with = std::is_trivially_destructible_v<T>;
template <class Signature>
inline constexpr bool safe_to_await_with<std::function<Signature>> = true;

/// Whether an operation with this token is awaited in the expression that calls it: the token is
/// `asio::use_awaitable`, or an adapter around it (`as_result`, `as_tuple`, `bind_cancellation_slot`, …).
template <class Token>
inline constexpr bool is_awaited = false;
template <class Executor>
inline constexpr bool is_awaited<asio::use_awaitable_t<Executor>> = true;
template <template <class...> class Adapter, class Inner, class... Others>
inline constexpr bool is_awaited<Adapter<Inner, Others...>> = is_awaited<Inner>;

/// Whether an argument given as T&& may be passed with this token. g++ 12 destroys a closure or an aggregate
/// twice that is made in a co_await expression and has captures or members with destructors.
template <class T, class Token>
inline constexpr bool survives_co_await = true;
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
template <class T, class Token>
  requires(is_awaited<Token>)
inline constexpr bool survives_co_await<T, Token> =
    std::is_lvalue_reference_v<T> || safe_to_await_with<std::remove_cvref_t<T>>;
#endif

template <class Signature>
struct OwnedArgument<std::function<Signature>> : OwnedAsItIs<std::function<Signature>> {};

/// What begins `operation(on, arguments..., stop, done)`. The arguments are copied here and now, with what
/// they view: a token may begin the operation when they are gone (`asio::use_awaitable`, `deferred`).
template <class On, class Operation, class... Arguments>
auto with_arguments(On on, Operation operation, const Arguments&... arguments) {
  static_assert((safe_to_await_with<Arguments> && ...));
  return [on = std::move(on), operation, owned = std::tuple<Owned<Arguments>...>(arguments...)](
             std::stop_token stop, auto done) mutable {
    std::apply([&](const auto&... each) { operation(on, each..., std::move(stop), std::move(done)); }, owned);
  };
}

}  // namespace detail

/// Turns an operation in completion style into one for any completion token: a callback, `asio::use_future`,
/// `co_await` with `asio::use_awaitable` or `as_result`, and every other that Asio has. All asynchronous
/// functions of this library are made of it.
///
/// `begin(std::stop_token, Done<Raw>)` starts the operation; `convert(Raw)`, which must not throw, makes the
/// value T for the handler.
///
/// *Completion*. `void(std::exception_ptr, T)`, or `void(std::exception_ptr)` if T is Ok. If the operation
/// fails, the exception is a holdfast::Error and T is default-constructed.
///
/// *Executor*. The handler is posted to its associated executor, or to `executor` if it has none. It is never
/// called inside this function nor on a thread of the library. Until then the executor has work. The
/// handler's associated allocator is not used: the handler is posted from a thread of the library, where an
/// allocator of yours may not be called.
///
/// *Cancellation*. A signal of any type on the handler's cancellation slot triggers the stop token. The
/// operation then fails with Aborted, unless it is too late to stop it. A change that was already sent may
/// have taken effect.
///
/// *Lifetime*. If the context of the handler's executor is destroyed first, the operation is stopped and the
/// handler is destroyed, not called.
template <class Raw, class Begin, class Token, class Convert>
auto async_call(const asio::any_io_executor& executor, Begin begin, Token&& token, Convert convert) {
  using Value = std::invoke_result_t<Convert&, Raw>;
  using T = decltype(detail::HandOver<Value>::of(std::declval<Value>()));
  return asio::async_initiate<Token, typename detail::CompletionSignature<T>::type>(
      [executor](auto handler, Begin start, Convert last) {
        const auto at = asio::get_associated_executor(handler, executor);
        using Call =
            detail::AsioCall<Raw, Convert, std::decay_t<decltype(handler)>, std::decay_t<decltype(at)>>;
        Call::start(std::make_shared<Call>(std::move(handler), at, std::move(last)), start);
      },
      token, std::move(begin), std::move(convert));
}

/// Passes the value on as it is.
template <class T, class Begin, class Token>
auto async_call(const asio::any_io_executor& executor, Begin begin, Token&& token) {
  return async_call<T>(executor, std::move(begin), std::forward<Token>(token), [](T value) { return value; });
}

}  // namespace holdfast
