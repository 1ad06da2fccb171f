#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/execution/context.hpp>
#include <asio/execution/outstanding_work.hpp>
#include <asio/execution_context.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <asio/query.hpp>
#include <asio/system_context.hpp>
#include <asio/system_executor.hpp>
#include <asio/use_awaitable.hpp>
#include <exception>
#include <holdfast/done.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace holdfast {
namespace detail {

/// What an execution context owes: the calls whose handlers are still to be posted to it. When it is
/// destroyed first, they are told, so that an answer that comes later finds nobody instead of freed memory.
class PendingCalls {
 public:
  class Call {
   public:
    Call() = default;
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    virtual ~Call() = default;
    /// The context is going: stops the operation and destroys the handler. Not under the mutex.
    virtual void abandon() noexcept = 0;
  };
  using List = std::list<std::shared_ptr<Call>>;

  [[nodiscard]] static std::shared_ptr<PendingCalls> of(asio::execution_context& context) {
    return asio::use_service<Service>(context).calls;
  }

  /// Where the call stands in the list; nothing if the context is going already.
  [[nodiscard]] std::optional<List::iterator> enter(std::shared_ptr<Call> call) {
    const std::lock_guard lock(mutex_);
    if (closed_) return std::nullopt;
    return calls_.insert(calls_.end(), std::move(call));
  }

  /// Runs `post`, which posts the handler, unless the context is gone: it cannot go meanwhile.
  template <class Post>
  void leave(List::iterator place, Post&& post) {
    std::shared_ptr<Call> last;
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    last = std::move(*place);
    calls_.erase(place);
    std::forward<Post>(post)();
  }

 private:
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
  }

  std::mutex mutex_;
  bool closed_ = false;
  List calls_;
};

template <class Executor>
asio::execution_context& context_of(const Executor& executor) {
  if constexpr (asio::can_query<const Executor&, asio::execution::context_t>::value) {
    return asio::query(executor, asio::execution::context);
  } else {
    return asio::system_executor().context();  // where the one of asio::use_future posts
  }
}

/// The value beside an error in a completion: it means nothing, but there has to be one.
template <class T>
struct Placeholder {
  static T make() { return T(); }
};

/// One call under way, from its initiation to the post of its handler.
template <class Raw, class Convert, class Handler, class Executor>
class AsioCall final : public PendingCalls::Call {
 public:
  using Value = std::invoke_result_t<Convert&, Raw>;

  AsioCall(Handler handler, const Executor& executor, Convert convert)
      : executor_(asio::prefer(executor, asio::execution::outstanding_work.tracked)),
        calls_(PendingCalls::of(context_of(executor))),
        arrival_(std::in_place, std::move(handler), std::move(convert)) {}

  /// `begin(stop, done)` starts the operation.
  template <class Begin>
  static void start(std::shared_ptr<AsioCall> call, Begin& begin) {
    const auto place = call->calls_->enter(call);
    if (!place) return call->abandon();
    call->place_ = *place;
    auto slot = asio::get_associated_cancellation_slot(call->arrival_->handler);
    if (slot.is_connected()) {
      slot.assign([stop = call->stop_](asio::cancellation_type type) mutable {
        if (type != asio::cancellation_type::none) stop.request_stop();
      });
    }
    begin(slot.is_connected() ? call->stop_.get_token() : std::stop_token(),
          Done<Raw>([call](Result<Raw> result) { call->complete(std::move(result)); }));
  }

  void abandon() noexcept override {
    stop_.request_stop();
    arrival_.reset();
  }

 private:
  /// What is posted: the handler and, by then, its arguments.
  struct Arrival {
    Arrival(Handler h, Convert c) : handler(std::move(h)), convert(std::move(c)) {}
    Handler handler;
    Convert convert;
    std::optional<Result<Raw>> result = {};

    void operator()() {
      asio::get_associated_cancellation_slot(handler).clear();
      Result<Raw> arrived = *std::move(result);
      if (arrived) {
        std::move(handler)(std::exception_ptr(), convert(*std::move(arrived)));
      } else {
        std::move(handler)(std::make_exception_ptr(arrived.error()), Placeholder<Value>::make());
      }
    }
  };

  void complete(Result<Raw> result) {
    calls_->leave(place_, [&] {
      arrival_->result.emplace(std::move(result));
      auto arrival = *std::move(arrival_);
      arrival_.reset();
      // Always posted: a handler must not run on the thread that brings the answer.
      asio::post(executor_, std::move(arrival));
    });
  }

  using Tracked = std::decay_t<decltype(asio::prefer(std::declval<const Executor&>(),
                                                     asio::execution::outstanding_work.tracked))>;
  std::stop_source stop_;
  Tracked executor_;
  const std::shared_ptr<PendingCalls> calls_;
  PendingCalls::List::iterator place_;
  std::optional<Arrival> arrival_;
};

}  // namespace detail

/// Turns one operation in completion style into one for any completion token: callback, `asio::use_future`,
/// `co_await` with `asio::use_awaitable`. `begin(std::stop_token, Done<Raw>)` starts it; the token's
/// signature is `void(std::exception_ptr, T)`, where T is what `convert(Raw)` returns and the exception is a
/// holdfast::Error.
///
/// The handler is posted to its associated executor (`executor` if it has none), never called before this
/// returns nor on a thread of the library. A signal on its cancellation slot, of whatever type, triggers the
/// stop token: the operation ends with Aborted, unless it has come too far for that. If the executor's
/// context is destroyed first, the operation is stopped and the handler destroyed.
template <class Raw, class Begin, class Token, class Convert>
auto async_call(const asio::any_io_executor& executor, Begin begin, Token&& token, Convert convert) {
  using T = std::invoke_result_t<Convert&, Raw>;
  return asio::async_initiate<Token, void(std::exception_ptr, T)>(
      [executor](auto handler, Begin start, Convert last) {
        const auto at = asio::get_associated_executor(handler, executor);
        using Call =
            detail::AsioCall<Raw, Convert, std::decay_t<decltype(handler)>, std::decay_t<decltype(at)>>;
        Call::start(std::make_shared<Call>(std::move(handler), at, std::move(last)), start);
      },
      token, std::move(begin), std::move(convert));
}

template <class T, class Begin, class Token>
auto async_call(const asio::any_io_executor& executor, Begin begin, Token&& token) {
  return async_call<T>(executor, std::move(begin), std::forward<Token>(token), [](T value) { return value; });
}

}  // namespace holdfast
