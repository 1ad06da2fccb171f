#pragma once

#include <functional>
#include <holdfast/asio/call.hpp>
#include <holdfast/asio/locks.hpp>
#include <holdfast/fenced_register.hpp>
#include <holdfast/tasks.hpp>
#include <string>
#include <string_view>

namespace holdfast {

// The token is always the last argument. The others are copied by the call: they need to be valid only until
// it returns, though the operation may begin later.

/// A Claim for coroutines and callbacks: the same lock, the same fence. What asks the engine takes a
/// completion token and completes on the handler's executor, by default the one that the claim was made with.
/// It must not end or move before that. The destructor never blocks: it releases in the background.
class AsyncClaim {
 public:
  using executor_type = asio::any_io_executor;

  /// An empty claim.
  AsyncClaim() noexcept = default;
  AsyncClaim(asio::any_io_executor executor, Claim claim) noexcept
      : executor_(std::move(executor)), claim_(std::move(claim)) {}
  // The other one is empty then, but still knows where to complete.
  AsyncClaim(AsyncClaim&& other) noexcept
      : executor_(other.get_executor()), claim_(std::move(other.claim_)) {}
  AsyncClaim& operator=(AsyncClaim&& other) noexcept {
    if (this != &other) {
      claim_.release_in_background();
      executor_ = other.executor_;
      claim_ = std::move(other.claim_);
    }
    return *this;
  }
  ~AsyncClaim() { claim_.release_in_background(); }

  [[nodiscard]] executor_type get_executor() const { return executor_; }

  // As those of Claim.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(claim_); }
  [[nodiscard]] Task task() const { return claim_.task(); }
  [[nodiscard]] Fence fence() const { return claim_.fence(); }
  [[nodiscard]] FencingToken token() const { return claim_.token(); }
  [[nodiscard]] std::stop_token stopped() const noexcept { return claim_.stopped(); }
  [[nodiscard]] bool cancelled() const { return claim_.cancelled(); }
  [[nodiscard]] bool gone() const { return claim_.gone(); }
  /// The lock, to look at.
  [[nodiscard]] const Guard& guard() { return claim_.guard(); }

  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto update_status(TaskStatus status, std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.update_status(std::forward<decltype(all)>(all)...); }, status,
        message);
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto set_variables(JsonView changes, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.set_variables(std::forward<decltype(all)>(all)...); },
        changes);
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto complete(JsonView result, std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.complete(std::forward<decltype(all)>(all)...); }, result,
        message);
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail(std::optional<std::string_view> message = {}, Token&& token = {}) {
    return update_status(TaskStatus::failed, message, std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail_with_result(JsonView result, std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.fail_with_result(std::forward<decltype(all)>(all)...); },
        result, message);
  }
  /// bool: false if the lock was lost already
  template <class Token = asio::use_awaitable_t<>>
  auto release(Token&& token = {}) {
    return call<bool>(std::forward<Token>(token), [](Claim& claim, auto&&... all) {
      claim.release(std::forward<decltype(all)>(all)...);
    });
  }

  /// The claim itself, for code that blocks; this one is empty then.
  [[nodiscard]] Claim into_claim() && noexcept { return std::move(claim_); }

 private:
  /// `operation(claim, arguments..., stop, done)`
  template <class T, class Token, class Operation, class... Arguments>
  auto call(Token&& token, Operation operation, const Arguments&... arguments) {
    return async_call<T>(executor_, detail::with_arguments(std::ref(claim_), operation, arguments...),
                         std::forward<Token>(token));
  }

  asio::any_io_executor executor_ = asio::system_executor();
  Claim claim_;
};

/// Tasks for coroutines and callbacks: every operation of Tasks, with any completion token
/// (`asio::use_awaitable` if none is given), completed on the handler's executor. No call blocks; an engine
/// that does (SQLite) has a small pool for it. A cancelled operation ends with Aborted. Errors are
/// holdfast::Error. Cheap to copy. May be called from any thread.
class AsyncTasks {
  // What callers write in a co_await expression; see detail::safe_to_await_with.
  static_assert(detail::safe_to_await_with<NewTask> && detail::safe_to_await_with<ListTasks> &&
                detail::safe_to_await_with<ListTaskOwners> && detail::safe_to_await_with<JsonView> &&
                detail::safe_to_await_with<std::optional<FencingTokenView>>);

 public:
  using executor_type = asio::any_io_executor;

  AsyncTasks(asio::any_io_executor executor, Tasks tasks)
      : executor_(std::move(executor)), tasks_(std::move(tasks)) {}
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  [[nodiscard]] Tasks& blocking() noexcept { return tasks_; }

  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto create(std::string_view owner, const NewTask& task = {}, Token&& token = {}) {
    return call(operation::CreateTask{std::string(owner), detail::owned(task)}, std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto get(std::string_view owner, std::string_view id, Token&& token = {}) {
    return call(operation::GetTask{std::string(owner), std::string(id)}, std::forward<Token>(token));
  }
  /// TaskPage
  template <class Token = asio::use_awaitable_t<>>
  auto list(std::string_view owner, const ListTasks& what = {}, Token&& token = {}) {
    return call(operation::ListTasksOfOwner{std::string(owner), detail::owned(what)},
                std::forward<Token>(token));
  }
  /// OwnerPage
  template <class Token = asio::use_awaitable_t<>>
  auto owners(const ListTaskOwners& what = {}, Token&& token = {}) {
    return call(operation::ListOwnersOfTasks{detail::owned(what)}, std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto update_status(std::string_view owner, std::string_view id, TaskStatus status,
                     std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call(
        operation::UpdateTaskStatus{std::string(owner), std::string(id), status, detail::owned(message)},
        std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto set_variables(std::string_view owner, std::string_view id, JsonView changes, Token&& token = {}) {
    return call(operation::SetTaskVariables{std::string(owner), std::string(id), detail::owned(changes)},
                std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto set_result(std::string_view owner, std::string_view id, JsonView result, Token&& token = {}) {
    return call(operation::SetTaskResult{std::string(owner), std::string(id), detail::owned(result)},
                std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto complete_with_result(std::string_view owner, std::string_view id, JsonView result,
                            std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call(operation::EndTask{std::string(owner), std::string(id), TaskStatus::completed,
                                   detail::owned(result), detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
            Token&& token = {}) {
    return call(operation::UpdateTaskStatus{std::string(owner), std::string(id), TaskStatus::failed,
                                            detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail_with_result(std::string_view owner, std::string_view id, JsonView result,
                        std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call(operation::EndTask{std::string(owner), std::string(id), TaskStatus::failed,
                                   detail::owned(result), detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto cancel(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
              Token&& token = {}) {
    return call(operation::CancelTask{std::string(owner), std::string(id), detail::owned(message)},
                std::forward<Token>(token));
  }
  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto remove(std::string_view owner, std::string_view id, Token&& token = {}) {
    return call(operation::RemoveTask{std::string(owner), std::string(id)}, std::forward<Token>(token));
  }
  /// std::optional<Json>
  template <class Token = asio::use_awaitable_t<>>
  auto get_result(std::string_view owner, std::string_view id, Token&& token = {}) {
    return call(operation::GetTaskResult{std::string(owner), std::string(id)}, std::forward<Token>(token));
  }

  /// std::optional<Task>: nothing if the timeout passes first. `until` runs on a thread of the library, not
  /// on the executor; see Tasks::wait.
  template <class Until, class Token = asio::use_awaitable_t<>>
    requires std::is_convertible_v<Until, std::function<bool(const Task&)>>
  auto wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout, Until&& until,
            Token&& token = {}) {
    static_assert(detail::closure_survives<Until, std::decay_t<Token>>,
                  "g++ 12 would destroy what this closure captures twice: give it a name before the co_await "
                  "expression");
    return call(operation::AwaitTask{std::string(owner), std::string(id), timeout,
                                     std::function<bool(const Task&)>(std::forward<Until>(until))},
                std::forward<Token>(token));
  }
  /// std::optional<Task>, once it is final.
  template <class Token = asio::use_awaitable_t<>>
    requires(!std::is_convertible_v<Token, std::function<bool(const Task&)>>)
  auto wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout = no_time_limit,
            Token&& token = {}) {
    return call(operation::AwaitTask{std::string(owner), std::string(id), timeout, {}},
                std::forward<Token>(token));
  }

  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto bind(std::string_view owner, std::string_view id, const FencingTokenView& fence, Token&& token = {}) {
    return call(operation::BindTask{std::string(owner), std::string(id), detail::owned(fence)},
                std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto rebind(std::string_view owner, std::string_view id, const std::optional<FencingTokenView>& fence,
              Token&& token = {}) {
    return call(operation::RebindTask{std::string(owner), std::string(id), detail::owned(fence)},
                std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto rebind_from(std::string_view authority, std::string_view owner, std::string_view id,
                   const std::optional<FencingTokenView>& fence, Token&& token = {}) {
    return call(operation::RebindTask{std::string(owner), std::string(id), detail::owned(fence),
                                      std::string(authority)},
                std::forward<Token>(token));
  }
  /// AsyncClaim. Cancelled while it waits for the lock, it holds nothing.
  template <class Token = asio::use_awaitable_t<>>
  auto claim(std::string_view owner, std::string_view id, const LockOptions& how = {}, Token&& token = {}) {
    return call(operation::ClaimTask{std::string(owner), std::string(id), how}, std::forward<Token>(token));
  }
  /// std::size_t
  template <class Token = asio::use_awaitable_t<>>
  auto cleanup_expired(Token&& token = {}) {
    return call(operation::CleanUpTasks{}, std::forward<Token>(token));
  }

  /// The same store, but every write carries this fence; see Tasks.
  [[nodiscard]] AsyncTasks with_fence(const FencingTokenView& token) const {
    return {executor_, tasks_.with_fence(token)};
  }
  [[nodiscard]] AsyncTasks with_fence(const AsyncGuard& guard) const { return with_fence(guard.token()); }
  [[nodiscard]] const std::optional<FencingToken>& token() const noexcept { return tasks_.token(); }

  /// The same store, but every operation on one task means the one of this incarnation; see Tasks.
  [[nodiscard]] AsyncTasks with_incarnation(std::string_view incarnation) const {
    return {executor_, tasks_.with_incarnation(incarnation)};
  }
  [[nodiscard]] const std::string& incarnation() const noexcept { return tasks_.incarnation(); }

 private:
  /// What a coroutine gets in place of what the blocking function returns.
  struct Convert {
    asio::any_io_executor executor;
    AsyncClaim operator()(Claim claim) const { return AsyncClaim(executor, std::move(claim)); }
    template <class T>
    T operator()(T value) const {
      return value;
    }
  };

  template <class Operation, class Token>
  auto call(Operation operation, Token&& token) {
    using Answer = typename Operation::Answer;
    return async_call<Answer>(
        executor_,
        [tasks = tasks_, operation = std::move(operation)](std::stop_token stop, Done<Answer> done) mutable {
          tasks.start(std::move(operation), std::move(stop), std::move(done));
        },
        std::forward<Token>(token), Convert{executor_});
  }

  asio::any_io_executor executor_;
  Tasks tasks_;
};

/// A FencedRegister for coroutines and callbacks. Cheap to copy. May be called from any thread.
class AsyncRegister {
 public:
  using executor_type = asio::any_io_executor;
  using Value = FencedRegister::Value;

  AsyncRegister(asio::any_io_executor executor, FencedRegister fenced)
      : executor_(std::move(executor)), register_(std::move(fenced)) {}
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  [[nodiscard]] FencedRegister& blocking() noexcept { return register_; }

  /// std::optional<Value>
  template <class Token = asio::use_awaitable_t<>>
  auto get(Token&& token = {}) {
    return call<std::optional<Value>>(std::forward<Token>(token), [](FencedRegister& fenced, auto&&... all) {
      fenced.get(std::forward<decltype(all)>(all)...);
    });
  }
  /// std::uint64_t: the version
  template <class Token = asio::use_awaitable_t<>>
  auto put(std::string_view text, const FencingTokenView& fence, Token&& token = {}) {
    return call<std::uint64_t>(
        std::forward<Token>(token),
        [](FencedRegister& fenced, auto&&... all) { fenced.put(std::forward<decltype(all)>(all)...); }, text,
        fence);
  }
  /// std::optional<Value>
  template <class Token = asio::use_awaitable_t<>>
  auto bind(const FencingTokenView& fence, Token&& token = {}) {
    return call<std::optional<Value>>(
        std::forward<Token>(token),
        [](FencedRegister& fenced, auto&&... all) { fenced.bind(std::forward<decltype(all)>(all)...); },
        fence);
  }
  /// bool: false if it was never written
  template <class Token = asio::use_awaitable_t<>>
  auto rebind(const FencingTokenView& fence, Token&& token = {}) {
    return call<bool>(
        std::forward<Token>(token),
        [](FencedRegister& fenced, auto&&... all) { fenced.rebind(std::forward<decltype(all)>(all)...); },
        fence);
  }
  /// std::optional<Value>
  template <class Token = asio::use_awaitable_t<>>
  auto rebind_from(std::string_view authority, const FencingTokenView& fence, Token&& token = {}) {
    return call<std::optional<Value>>(
        std::forward<Token>(token),
        [](FencedRegister& fenced, auto&&... all) {
          fenced.rebind_from(std::forward<decltype(all)>(all)...);
        },
        authority, fence);
  }

 private:
  /// `operation(register, arguments..., stop, done)`
  template <class T, class Token, class Operation, class... Arguments>
  auto call(Token&& token, Operation operation, const Arguments&... arguments) {
    return async_call<T>(executor_, detail::with_arguments(register_, operation, arguments...),
                         std::forward<Token>(token));
  }

  asio::any_io_executor executor_;
  FencedRegister register_;
};

}  // namespace holdfast
