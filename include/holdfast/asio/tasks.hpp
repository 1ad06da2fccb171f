#pragma once

#include <functional>
#include <holdfast/asio/call.hpp>
#include <holdfast/asio/locks.hpp>
#include <holdfast/tasks.hpp>
#include <string>
#include <string_view>

namespace holdfast {

/// A Claim for coroutines and callbacks: the same lock, the same fence. Movable; a moved-from claim is empty.
/// The destructor never blocks: it releases the task's lock in the background and leaves the task as it is.
///
/// *Asynchronous functions* take a completion token as their last argument, by default
/// `asio::use_awaitable`, and complete with `void(std::exception_ptr, T)`. The T is named in each comment; on
/// an error it is default-constructed. The exception is a holdfast::Error. The handler is posted to its
/// associated executor, or to the claim's: that of the AsyncTasks which made it. Arguments are copied: what
/// they view must be valid only until the function returns. A claim must not end or move between the call of
/// such a function and the start of the operation, which `asio::use_awaitable` and `deferred` delay until the
/// result is awaited.
///
/// *Cancellation*. A signal of any type ends an operation with Aborted. A write that was already sent may
/// have taken effect; the claim is as before.
///
/// *Errors* of all writes: StaleFence if another worker has claimed the task since, WrongLock if the task was
/// bound to another lock, NotFound if it is gone, InvalidTransition if it is final, ConcurrentChange,
/// TooLarge, TooDeep, InvalidArgument (also if the claim is empty or has ended), Aborted, and those of the
/// engine: ServiceUnavailable, NetworkTimeout (whether the write took effect is unknown), RateLimited,
/// AuthFailed, Internal.
///
/// *Threads*: const functions may be called from any thread.
class AsyncClaim {
 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;

  /// Makes an empty claim.
  AsyncClaim() noexcept = default;
  /// Makes a claim from one of the blocking API.
  AsyncClaim(asio::any_io_executor executor, Claim claim) noexcept
      : executor_(std::move(executor)), claim_(std::move(claim)) {}
  /// Leaves the other claim empty, with its executor.
  AsyncClaim(AsyncClaim&& other) noexcept
      : executor_(other.get_executor()), claim_(std::move(other.claim_)) {}
  /// Ends the claim that it was before, in the background.
  AsyncClaim& operator=(AsyncClaim&& other) noexcept {
    if (this != &other) {
      claim_.release_in_background();
      executor_ = other.executor_;
      claim_ = std::move(other.claim_);
    }
    return *this;
  }
  /// Releases the task's lock in the background.
  ~AsyncClaim() { claim_.release_in_background(); }

  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }

  // As the functions of Claim. None does I/O.
  /// Returns false for an empty claim, as Claim's.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(claim_); }
  /// Returns the task as it was claimed, or last written through this claim.
  [[nodiscard]] Task task() const { return claim_.task(); }
  /// Returns the fence that the writes carry.
  [[nodiscard]] Fence fence() const { return claim_.fence(); }
  /// Returns the fence with the lock and the authority that it belongs to.
  [[nodiscard]] FencingToken token() const { return claim_.token(); }
  /// Returns a token that is triggered when the work is no longer wanted.
  [[nodiscard]] std::stop_token stopped() const noexcept { return claim_.stopped(); }
  /// Returns whether the task was cancelled, as far as this process knows.
  [[nodiscard]] bool cancelled() const { return claim_.cancelled(); }
  /// Returns whether the task was removed or has expired, as far as this process knows.
  [[nodiscard]] bool gone() const { return claim_.gone(); }
  /// Returns the task's lock, to look at.
  [[nodiscard]] const Guard& guard() { return claim_.guard(); }

  /// Waits until `stopped()` is triggered: the lock is lost, or another caller has ended, cancelled or
  /// removed the task. For `co_await (work() || claim.wait_stopped())`. Completes with
  /// `void(std::exception_ptr)`.
  ///
  /// Fails with Aborted if the claim ends first, InvalidArgument if it is empty. Once the operation has
  /// started, the claim may end or move. Cancellation ends the wait and leaves the claim as it is.
  template <class Token = asio::use_awaitable_t<>>
  auto wait_stopped(Token&& token = {}) const {
    return async_call<Ok>(
        executor_,
        [this](std::stop_token stop, Done<Ok> done) {
          claim_.wait_stopped(std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  /// Sets the status, and the status message or none. T: Task, as written. A final status also releases the
  /// lock, as `complete` does.
  template <class Token = asio::use_awaitable_t<>>
  auto update_status(TaskStatus status, std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.update_status(std::forward<decltype(all)>(all)...); }, status,
        message);
  }
  /// Merges an object into the variables; null deletes one. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto set_variables(JsonView changes, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.set_variables(std::forward<decltype(all)>(all)...); },
        changes);
  }
  /// Marks the task completed with this result, and then releases the lock. T: Task, as written.
  ///
  /// If the write fails, the claim is as before. Once the task is written, a release that fails is not an
  /// error: the lock expires with its lease.
  template <class Token = asio::use_awaitable_t<>>
  auto complete(JsonView result, std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.complete(std::forward<decltype(all)>(all)...); }, result,
        message);
  }
  /// Marks the task failed, and then releases the lock, as `complete` does. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto fail(std::optional<std::string_view> message = {}, Token&& token = {}) {
    return update_status(TaskStatus::failed, message, std::forward<Token>(token));
  }
  /// Marks the task failed with this result, and then releases the lock, as `complete` does. T: Task, as
  /// written.
  template <class Token = asio::use_awaitable_t<>>
  auto fail_with_result(JsonView result, std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token),
        [](Claim& claim, auto&&... all) { claim.fail_with_result(std::forward<decltype(all)>(all)...); },
        result, message);
  }
  /// Releases the lock and leaves the task as it is, for another worker. T: bool, false if the lock was lost
  /// already. If the operation is cancelled or fails, the lock is released in the background.
  template <class Token = asio::use_awaitable_t<>>
  auto release(Token&& token = {}) {
    return call<bool>(std::forward<Token>(token), [](Claim& claim, auto&&... all) {
      claim.release(std::forward<decltype(all)>(all)...);
    });
  }

  /// Returns the claim for code that blocks, and leaves this one empty.
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

/// A TaskWatch for coroutines and callbacks. Movable; used by one operation at a time. It may end while an
/// operation is under way, but not before that has started.
class AsyncTaskWatch {
 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;
  /// Makes an empty one: its operations complete with InvalidArgument.
  AsyncTaskWatch() noexcept = default;
  /// Wraps `watch`; handlers without an executor are posted to `executor`.
  AsyncTaskWatch(asio::any_io_executor executor, TaskWatch watch) noexcept
      : executor_(std::move(executor)), watch_(std::move(watch)) {}
  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  /// Waits for changes. T: std::vector<TaskChange>, empty after the timeout. Cancellation ends it with
  /// Aborted; no change is lost.
  template <class Token = asio::use_awaitable_t<>>
  auto next(std::chrono::milliseconds timeout = no_time_limit, Token&& token = {}) {
    using Answer = operation::NextTaskChanges::Answer;
    return async_call<Answer>(
        executor_,
        [this, timeout](std::stop_token stop, Done<Answer> done) {
          watch_.start(operation::NextTaskChanges{timeout}, std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

 private:
  asio::any_io_executor executor_ = asio::system_executor();
  TaskWatch watch_;
};

/// Tasks for coroutines and callbacks: every operation of Tasks for any completion token. No function blocks;
/// an engine that does (SQLite) has a small thread pool. Cheap to copy; copies share the store. All functions
/// may be called from any thread. This object may end while operations are under way. `async_tasks` makes one
/// without blocking.
///
/// *Completion*. The last argument is a completion token, by default `asio::use_awaitable`. The signature is
/// `void(std::exception_ptr, T)`; the T is named in each comment. On an error the exception is a
/// holdfast::Error and T is default-constructed. `as_result` turns both into a Result<T>.
///
/// *Executor*. The handler is posted to its associated executor, or to the one of this object.
///
/// *Arguments*. They are copied: what they view must be valid only until the function returns.
///
/// *Cancellation*. A signal of any type ends an operation with Aborted at any point. A change that was
/// already sent may have taken effect.
///
/// *Errors* of all of them: InvalidArgument (an argument, or this object is empty), AnonymousOwner, Aborted,
/// and those of the engine: ServiceUnavailable, NetworkTimeout (whether a change took effect is unknown),
/// RateLimited, AuthFailed, Internal. Of those that name a task: NotFound. Of those that change one:
/// InvalidTransition if it is final, ConcurrentChange, StaleFence, WrongLock, and TooLarge and TooDeep for
/// what is stored. Further ones are in the comments.
class AsyncTasks {
  // What callers write in a co_await expression; see detail::safe_to_await_with.
  static_assert(detail::safe_to_await_with<NewTask> && detail::safe_to_await_with<ListTasks> &&
                detail::safe_to_await_with<ListTaskOwners> && detail::safe_to_await_with<JsonView> &&
                detail::safe_to_await_with<std::optional<FencingTokenView>> &&
                detail::safe_to_await_with<NewOutput> && detail::safe_to_await_with<OutputPart>);

 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;

  /// Makes an empty one: its operations complete with InvalidArgument, its other functions throw it.
  AsyncTasks() noexcept = default;
  /// Wraps `tasks`; handlers without an executor are posted to `executor`.
  AsyncTasks(asio::any_io_executor executor, Tasks tasks)
      : executor_(std::move(executor)), tasks_(std::move(tasks)) {}
  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  /// Returns false if it is empty: default-constructed.
  [[nodiscard]] explicit operator bool() const noexcept { return tasks_.has_value(); }
  /// Returns the same tasks for code that blocks.
  [[nodiscard]] const Tasks& blocking() const {
    if (!tasks_) throw empty();
    return *tasks_;
  }

  /// Creates a task. T: Task. QuotaExceeded, TtlTooLong; RequestKeyConflict if another request has this key.
  template <class Token = asio::use_awaitable_t<>>
  auto create(std::string_view owner, const NewTask& task = {}, Token&& token = {}) const {
    return call(operation::CreateTask{std::string(owner), detail::owned(task)}, std::forward<Token>(token));
  }
  /// Reads a task. T: Task.
  template <class Token = asio::use_awaitable_t<>>
  auto get(std::string_view owner, std::string_view id, Token&& token = {}) const {
    return call(operation::GetTask{std::string(owner), std::string(id)}, std::forward<Token>(token));
  }
  /// Lists the tasks of an owner, a page at a time. T: TaskPage. BadCursor.
  template <class Token = asio::use_awaitable_t<>>
  auto list(std::string_view owner, const ListTasks& what = {}, Token&& token = {}) const {
    return call(operation::ListTasksOfOwner{std::string(owner), detail::owned(what)},
                std::forward<Token>(token));
  }
  /// Lists the owners that have tasks, a page at a time, for operators. T: OwnerPage. BadCursor.
  template <class Token = asio::use_awaitable_t<>>
  auto owners(const ListTaskOwners& what = {}, Token&& token = {}) const {
    return call(operation::ListOwnersOfTasks{detail::owned(what)}, std::forward<Token>(token));
  }
  /// Sets the status, and the status message or none. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto update_status(std::string_view owner, std::string_view id, TaskStatus status,
                     std::optional<std::string_view> message = {}, Token&& token = {}) const {
    return call(
        operation::UpdateTaskStatus{std::string(owner), std::string(id), status, detail::owned(message)},
        std::forward<Token>(token));
  }
  /// Merges an object into the variables; null deletes one. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto set_variables(std::string_view owner, std::string_view id, JsonView changes,
                     Token&& token = {}) const {
    return call(operation::SetTaskVariables{std::string(owner), std::string(id), detail::owned(changes)},
                std::forward<Token>(token));
  }
  /// Sets the result of a task that has not ended. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto set_result(std::string_view owner, std::string_view id, JsonView result, Token&& token = {}) const {
    return call(operation::SetTaskResult{std::string(owner), std::string(id), detail::owned(result)},
                std::forward<Token>(token));
  }
  /// Marks the task completed with this result, in one write. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto complete_with_result(std::string_view owner, std::string_view id, JsonView result,
                            std::optional<std::string_view> message = {}, Token&& token = {}) const {
    return call(operation::EndTask{std::string(owner), std::string(id), TaskStatus::completed,
                                   detail::owned(result), detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Marks the task failed. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto fail(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
            Token&& token = {}) const {
    return call(operation::UpdateTaskStatus{std::string(owner), std::string(id), TaskStatus::failed,
                                            detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Marks the task failed with this result, in one write. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto fail_with_result(std::string_view owner, std::string_view id, JsonView result,
                        std::optional<std::string_view> message = {}, Token&& token = {}) const {
    return call(operation::EndTask{std::string(owner), std::string(id), TaskStatus::failed,
                                   detail::owned(result), detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Marks the task cancelled. Never carries a fence: a client may cancel what another works on. T: Task, as
  /// written.
  template <class Token = asio::use_awaitable_t<>>
  auto cancel(std::string_view owner, std::string_view id, std::optional<std::string_view> message = {},
              Token&& token = {}) const {
    return call(operation::CancelTask{std::string(owner), std::string(id), detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Deletes the task. T: bool, false if it was not there.
  template <class Token = asio::use_awaitable_t<>>
  auto remove(std::string_view owner, std::string_view id, Token&& token = {}) const {
    return call(operation::RemoveTask{std::string(owner), std::string(id)}, std::forward<Token>(token));
  }
  /// Reads the result of a task that has ended. T: std::optional<Json>, empty if it ended without one.
  /// NotReady if it has not ended.
  template <class Token = asio::use_awaitable_t<>>
  auto get_result(std::string_view owner, std::string_view id, Token&& token = {}) const {
    return call(operation::GetTaskResult{std::string(owner), std::string(id)}, std::forward<Token>(token));
  }

  /// Waits until the predicate is true of the task. T: std::optional<Task>, empty if the timeout passes
  /// first.
  ///
  /// `until` runs on a thread of the library, not on the executor, and may block there; see Tasks::wait. With
  /// g++ 12 and `co_await`, a closure with captures that have destructors must have a name.
  template <class Until, class Token = asio::use_awaitable_t<>>
    requires std::is_convertible_v<Until, std::function<bool(const Task&)>>
  auto wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout, Until&& until,
            Token&& token = {}) const {
    static_assert(detail::survives_co_await<Until, std::decay_t<Token>>,
                  "g++ 12 would destroy what this closure captures twice: give it a name before the co_await "
                  "expression");
    return call(operation::AwaitTask{std::string(owner), std::string(id), timeout,
                                     std::function<bool(const Task&)>(std::forward<Until>(until))},
                std::forward<Token>(token));
  }
  /// Waits until the task is final. T: std::optional<Task>, empty if the timeout passes first.
  template <class Token = asio::use_awaitable_t<>>
    requires(!std::is_convertible_v<Token, std::function<bool(const Task&)>>)
  auto wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout = no_time_limit,
            Token&& token = {}) const {
    return call(operation::AwaitTask{std::string(owner), std::string(id), timeout, {}},
                std::forward<Token>(token));
  }

  /// Follows one task. No I/O until AsyncTaskWatch::next.
  [[nodiscard]] AsyncTaskWatch watch(std::string_view owner, std::string_view id) const {
    return {executor_, tasks_ ? tasks_->watch(owner, id) : TaskWatch()};
  }
  /// Follows all tasks of an owner. No I/O until AsyncTaskWatch::next.
  [[nodiscard]] AsyncTaskWatch watch(std::string_view owner) const {
    return {executor_, tasks_ ? tasks_->watch(owner) : TaskWatch()};
  }
  /// Appends to the output of the command that works on the task. T: OutputRun. StaleFence, WrongLock.
  template <class Token = asio::use_awaitable_t<>>
  auto append_output(std::string_view owner, std::string_view id, const NewOutput& what,
                     Token&& token = {}) const {
    return call(operation::AppendTaskOutput{std::string(owner), std::string(id), detail::owned(what)},
                std::forward<Token>(token));
  }
  /// Reads the output of a run. T: KeptOutput.
  template <class Token = asio::use_awaitable_t<>>
  auto read_output(std::string_view owner, std::string_view id, const OutputPart& part = {},
                   Token&& token = {}) const {
    return call(operation::ReadTaskOutput{std::string(owner), std::string(id), part},
                std::forward<Token>(token));
  }

  /// Binds the task to a lock, if it is bound to none, and raises its fence. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto bind(std::string_view owner, std::string_view id, const FencingTokenView& fence,
            Token&& token = {}) const {
    return call(operation::BindTask{std::string(owner), std::string(id), detail::owned(fence)},
                std::forward<Token>(token));
  }
  /// Binds the task to this lock, or to none, whatever it was bound to, for operators. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto rebind(std::string_view owner, std::string_view id, const std::optional<FencingTokenView>& fence,
              Token&& token = {}) const {
    return call(operation::RebindTask{std::string(owner), std::string(id), detail::owned(fence)},
                std::forward<Token>(token));
  }
  /// Does the same only if the task is bound to a lock of this authority. T: Task, as it is then.
  template <class Token = asio::use_awaitable_t<>>
  auto rebind_from(std::string_view authority, std::string_view owner, std::string_view id,
                   const std::optional<FencingTokenView>& fence, Token&& token = {}) const {
    return call(operation::RebindTask{std::string(owner), std::string(id), detail::owned(fence),
                                      std::string(authority)},
                std::forward<Token>(token));
  }
  /// Waits for the task's lock, as AsyncLocks::lock does, and claims the task; see Claim. T: AsyncClaim.
  ///
  /// AcquisitionTimeout; InvalidTransition if the task is final; WrongLock if it is bound to another lock
  /// than its own. If it is cancelled or fails, no lock is held; the task's fence may have been raised.
  template <class Token = asio::use_awaitable_t<>>
  auto claim(std::string_view owner, std::string_view id, const LockOptions& how = {},
             Token&& token = {}) const {
    return call(operation::ClaimTask{std::string(owner), std::string(id), how}, std::forward<Token>(token));
  }
  /// Claims a task without waiting. T: std::optional<AsyncClaim>, empty if another worker has it. Otherwise
  /// as claim().
  template <class Token = asio::use_awaitable_t<>>
  auto try_claim(std::string_view owner, std::string_view id, const LockOptions& how = {},
                 Token&& token = {}) const {
    return call(operation::TryClaimOrdinaryTask{std::string(owner), std::string(id), how},
                std::forward<Token>(token));
  }
  /// Opens a feed of the changes of all owners' tasks; see Tasks::follow. T: std::unique_ptr<ChangeFeed>,
  /// null if the engine cannot follow changes.
  template <class Token = asio::use_awaitable_t<>>
  auto follow(Token&& token = {}) const {
    return call(operation::FollowAllTasks{}, std::forward<Token>(token));
  }
  /// Deletes the expired tasks of all owners. T: std::size_t, how many; 0 on an engine that does it itself.
  template <class Token = asio::use_awaitable_t<>>
  auto cleanup_expired(Token&& token = {}) const {
    return call(operation::CleanUpTasks{}, std::forward<Token>(token));
  }

  /// Returns the same store, whose every write carries this fence; see Tasks.
  [[nodiscard]] AsyncTasks with_fence(const FencingTokenView& token) const {
    return {executor_, blocking().with_fence(token)};
  }
  /// Returns the same store whose writes carry the fence of this guard.
  [[nodiscard]] AsyncTasks with_fence(const AsyncGuard& guard) const { return with_fence(guard.token()); }
  /// Returns the token that the writes carry; empty if they carry none.
  [[nodiscard]] const std::optional<FencingToken>& token() const { return blocking().token(); }

  /// Returns the same store, whose every operation on one task means the one of this incarnation; see Tasks.
  [[nodiscard]] AsyncTasks with_incarnation(std::string_view incarnation) const {
    return {executor_, blocking().with_incarnation(incarnation)};
  }
  /// Returns the incarnation that operations are limited to; empty: any.
  [[nodiscard]] const std::string& incarnation() const { return blocking().incarnation(); }

 private:
  /// What a handler gets in place of what the blocking function returns.
  struct Convert {
    asio::any_io_executor executor;
    AsyncClaim operator()(Claim claim) const { return AsyncClaim(executor, std::move(claim)); }
    std::optional<AsyncClaim> operator()(std::optional<Claim> claim) const {
      if (!claim) return std::nullopt;
      return std::optional<AsyncClaim>(std::in_place, executor, *std::move(claim));
    }
    template <class T>
    T operator()(T value) const {
      return value;
    }
  };

  template <class Operation, class Token>
  auto call(Operation operation, Token&& token) const {
    using Answer = typename Operation::Answer;
    return async_call<Answer>(
        executor_,
        [tasks = tasks_, operation = std::move(operation)](std::stop_token stop, Done<Answer> done) mutable {
          if (!tasks) return done(empty());
          tasks->start(std::move(operation), std::move(stop), std::move(done));
        },
        std::forward<Token>(token), Convert{executor_});
  }

  static Error empty() {
    return {ErrorCode::InvalidArgument, "this AsyncTasks is empty: open the tasks of a store first"};
  }

  asio::any_io_executor executor_ = asio::system_executor();
  std::optional<Tasks> tasks_;
};

}  // namespace holdfast
