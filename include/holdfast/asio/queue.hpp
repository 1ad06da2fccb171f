#pragma once

#include <functional>
#include <holdfast/asio/call.hpp>
#include <holdfast/asio/tasks.hpp>
#include <holdfast/open.hpp>
#include <holdfast/queue.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

/// A Job for coroutines and callbacks: the same lease, the same fence. Movable; a moved-from job is empty.
/// The destructor never blocks: it gives the task back in the background.
///
/// *Asynchronous functions* take a completion token as their last argument, by default `asio::use_awaitable`,
/// and complete with `void(std::exception_ptr, T)`, on the handler's executor or that of the job. The T is
/// named in each comment. Arguments are copied. A job must not end or move between the call of such a
/// function and the start of the operation. *Cancellation* ends an operation with Aborted; an outcome that
/// was already sent may have been accepted. *Errors* are those of Job.
class AsyncJob {
 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;

  /// Makes an empty job.
  AsyncJob() noexcept = default;
  /// Makes a job from one of the blocking API.
  AsyncJob(asio::any_io_executor executor, Job job) noexcept
      : executor_(std::move(executor)), job_(std::move(job)) {}

  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }

  // As the functions of Job. None does I/O.
  /// Returns false for an empty job and after its end.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(job_); }
  /// Returns the task as it was claimed, or last written through this job.
  [[nodiscard]] Task task() const { return job_.task(); }
  /// Returns the task's id.
  [[nodiscard]] std::string id() const { return job_.id(); }
  /// Returns the name of the queue.
  [[nodiscard]] std::string queue() const { return job_.queue(); }
  /// Returns which attempt this is; the first is 1.
  [[nodiscard]] std::uint32_t attempt() const { return job_.attempt(); }
  /// Returns the fence that the writes carry.
  [[nodiscard]] Fence fence() const { return job_.fence(); }
  /// Returns the fence with the authority that it belongs to.
  [[nodiscard]] FencingToken token() const { return job_.token(); }
  /// Returns how long the lease is proven; for a lost lease, how long the worker has to stop.
  [[nodiscard]] std::chrono::nanoseconds remaining() const { return job_.remaining(); }
  /// Returns a token that is triggered when the work is no longer wanted.
  [[nodiscard]] std::stop_token stopped() const noexcept { return job_.stopped(); }
  /// Returns whether the task was cancelled, as far as this process knows.
  [[nodiscard]] bool cancelled() const { return job_.cancelled(); }
  /// Returns whether the task was removed, as far as this process knows.
  [[nodiscard]] bool gone() const { return job_.gone(); }
  /// Returns why the lease was lost; empty if it was not.
  [[nodiscard]] std::optional<LossReason> loss_reason() const { return job_.loss_reason(); }
  /// Returns whether the last renewal failed, or has had no answer for a sixth of the lease.
  [[nodiscard]] bool at_risk() const { return job_.at_risk(); }
  /// Posts `callback(at_risk)` to the job's executor with each change of at_risk(), in order, as
  /// Job::on_at_risk calls it. A call may run after the end of the job. On an executor that runs several
  /// handlers at once, calls may overlap.
  template <class F>
  void on_at_risk(F callback) {
    job_.on_at_risk(detail::posted_each_time(executor_, std::move(callback)));
  }

  /// Waits until `stopped()` is triggered: for `co_await (work() || job.wait_stopped())`. Completes with
  /// `void(std::exception_ptr)`; Aborted if the job ends first.
  template <class Token = asio::use_awaitable_t<>>
  auto wait_stopped(Token&& token = {}) const {
    return async_call<Ok>(
        executor_,
        [this](std::stop_token stop, Done<Ok> done) { job_.wait_stopped(std::move(stop), std::move(done)); },
        std::forward<Token>(token));
  }
  /// Merges an object into the variables; null deletes one. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto set_variables(JsonView changes, Token&& token = {}) {
    return call(operation::SetJobVariables{Json(changes)}, std::forward<Token>(token));
  }
  /// Marks the task completed with this result, and ends the job. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto complete(JsonView result = {}, std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call(operation::EndJob{.how = operation::EndJob::How::completed,
                                  .result = Json(result),
                                  .message = detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Does the same, and claims the next task of the queue in the same request. T: std::optional<AsyncJob>.
  template <class Token = asio::use_awaitable_t<>>
  auto complete_and_claim(JsonView result, const ClaimOptions& how = {}, Token&& token = {}) {
    return call(operation::EndJobAndClaim{{.how = operation::EndJob::How::completed, .result = Json(result)},
                                          detail::owned(how)},
                std::forward<Token>(token));
  }
  /// Marks the task failed for good, and ends the job. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto fail(std::optional<std::string_view> message = {}, Token&& token = {}) {
    return call(operation::EndJob{.how = operation::EndJob::How::failed, .message = detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Ends the job, and lets the task be attempted again later. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto retry(const RetryOptions& how = {}, Token&& token = {}) {
    return call(
        operation::EndJob{
            .how = operation::EndJob::How::retry, .message = detail::owned(how.message), .delay = how.delay},
        std::forward<Token>(token));
  }
  /// Ends the job, and puts the task back: the attempt does not count. T: Task.
  template <class Token = asio::use_awaitable_t<>>
  auto give_back(Token&& token = {}) {
    return call(operation::EndJob{.how = operation::EndJob::How::give_back}, std::forward<Token>(token));
  }

  /// Returns the job for code that blocks, and leaves this one empty.
  [[nodiscard]] Job into_job() && noexcept { return std::move(job_); }

 private:
  friend class AsyncQueue;
  /// What a handler gets in place of what the blocking function returns.
  struct Convert {
    asio::any_io_executor executor;
    std::optional<AsyncJob> operator()(std::optional<Job> job) const {
      if (!job) return std::nullopt;
      return std::optional<AsyncJob>(std::in_place, executor, *std::move(job));
    }
    std::vector<AsyncJob> operator()(std::vector<Job> jobs) const {
      std::vector<AsyncJob> converted;
      converted.reserve(jobs.size());
      for (auto& job : jobs) converted.emplace_back(executor, std::move(job));
      return converted;
    }
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
        [this, operation = std::move(operation)](std::stop_token stop, Done<Answer> done) mutable {
          job_.start(std::move(operation), std::move(stop), std::move(done));
        },
        std::forward<Token>(token), Convert{executor_});
  }

  asio::any_io_executor executor_ = asio::system_executor();
  Job job_;
};

/// A Queue for coroutines and callbacks: every operation of Queue for any completion token. No function
/// blocks. Cheap to copy; copies share the store. All functions may be called from any thread. `async_queue`
/// makes one without blocking. Completion, executor, arguments, cancellation and errors are as those of
/// AsyncTasks.
class AsyncQueue {
  // What callers write in a co_await expression; see detail::safe_to_await_with.
  static_assert(detail::safe_to_await_with<NewQueueTask> && detail::safe_to_await_with<ClaimOptions> &&
                detail::safe_to_await_with<RetryOptions> && detail::safe_to_await_with<ListTasks> &&
                detail::safe_to_await_with<QueueOptions>);

 public:
  /// The type of the executor.
  using executor_type = asio::any_io_executor;

  /// Makes an empty one: its operations complete with InvalidArgument.
  AsyncQueue() noexcept = default;
  /// Wraps `queue`; handlers without an executor are posted to `executor`.
  AsyncQueue(asio::any_io_executor executor, Queue queue)
      : executor_(std::move(executor)), queue_(std::move(queue)) {}
  /// Returns the executor that handlers without one of their own are posted to.
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  /// Returns false if it is empty: default-constructed.
  [[nodiscard]] explicit operator bool() const noexcept { return queue_.has_value(); }

  /// Adds a task. T: Task. QuotaExceeded; RequestKeyConflict if another request has this key.
  template <class Token = asio::use_awaitable_t<>>
  auto add(const NewQueueTask& task = {}, Token&& token = {}) const {
    return call(operation::AddTask{detail::owned(task)}, std::forward<Token>(token));
  }
  /// Claims the next task, waiting for one as `how` says. T: std::optional<AsyncJob>, empty if no task can be
  /// claimed. If it is cancelled, a task that was claimed is given back, or its lease expires.
  template <class Token = asio::use_awaitable_t<>>
  auto claim_next(const ClaimOptions& how = {}, Token&& token = {}) const {
    return call(operation::ClaimNextTask{detail::owned(how)}, std::forward<Token>(token));
  }
  /// Claims up to `limit` tasks in one request. T: std::vector<AsyncJob>.
  template <class Token = asio::use_awaitable_t<>>
  auto claim_batch(std::size_t limit, const ClaimOptions& how = {}, Token&& token = {}) const {
    return call(operation::ClaimNextTasks{detail::owned(how), limit}, std::forward<Token>(token));
  }
  /// Claims this task. T: std::optional<AsyncJob>, empty if it cannot be claimed.
  template <class Token = asio::use_awaitable_t<>>
  auto try_claim(std::string_view id, const ClaimOptions& how = {}, Token&& token = {}) const {
    return call(operation::TryClaimTask{std::string(id), detail::owned(how)}, std::forward<Token>(token));
  }
  /// Reads a task. T: Task.
  template <class Token = asio::use_awaitable_t<>>
  auto get(std::string_view id, Token&& token = {}) const {
    return call(operation::GetTask{{}, std::string(id)}, std::forward<Token>(token));
  }
  /// Lists the tasks of the queue, a page at a time. T: TaskPage.
  template <class Token = asio::use_awaitable_t<>>
  auto list(const ListTasks& what = {}, Token&& token = {}) const {
    return call(operation::ListTasksOfOwner{{}, detail::owned(what)}, std::forward<Token>(token));
  }
  /// Marks the task cancelled. T: Task, as written.
  template <class Token = asio::use_awaitable_t<>>
  auto cancel(std::string_view id, std::optional<std::string_view> message = {}, Token&& token = {}) const {
    return call(operation::CancelTask{{}, std::string(id), detail::owned(message)},
                std::forward<Token>(token));
  }
  /// Removes the task. T: bool, false if it did not exist.
  template <class Token = asio::use_awaitable_t<>>
  auto remove(std::string_view id, Token&& token = {}) const {
    return call(operation::RemoveTask{{}, std::string(id)}, std::forward<Token>(token));
  }
  /// Returns the result of a final task. T: std::optional<Json>. NotReady.
  template <class Token = asio::use_awaitable_t<>>
  auto get_result(std::string_view id, Token&& token = {}) const {
    return call(operation::GetTaskResult{{}, std::string(id)}, std::forward<Token>(token));
  }
  /// Waits until the task is final. T: std::optional<Task>, empty after the timeout.
  template <class Token = asio::use_awaitable_t<>>
  auto wait(std::string_view id, std::chrono::milliseconds timeout = no_time_limit,
            Token&& token = {}) const {
    return call(operation::AwaitTask{{}, std::string(id), timeout}, std::forward<Token>(token));
  }
  /// Follows one task. No I/O until AsyncTaskWatch::next.
  [[nodiscard]] AsyncTaskWatch watch(std::string_view id) const {
    return {executor_, queue_ ? queue_->watch(id) : TaskWatch()};
  }
  /// Follows all tasks of the queue. No I/O until AsyncTaskWatch::next.
  [[nodiscard]] AsyncTaskWatch watch() const { return {executor_, queue_ ? queue_->watch() : TaskWatch()}; }
  /// Appends to the output of the command that works on the task. T: OutputRun.
  template <class Token = asio::use_awaitable_t<>>
  auto append_output(std::string_view id, const NewOutput& what, Token&& token = {}) const {
    return call(operation::AppendTaskOutput{{}, std::string(id), detail::owned(what)},
                std::forward<Token>(token));
  }
  /// Reads the output of an attempt. T: KeptOutput.
  template <class Token = asio::use_awaitable_t<>>
  auto read_output(std::string_view id, const OutputPart& part = {}, Token&& token = {}) const {
    return call(operation::ReadTaskOutput{{}, std::string(id), part}, std::forward<Token>(token));
  }
  /// Adds a new task that does the work of a failed one again. T: Task, the new one.
  template <class Token = asio::use_awaitable_t<>>
  auto retry(std::string_view id, Token&& token = {}) const {
    return call(operation::RetryTask{std::string(id)}, std::forward<Token>(token));
  }
  /// Counts the tasks of the queue. T: QueueCounts.
  template <class Token = asio::use_awaitable_t<>>
  auto counts(Token&& token = {}) const {
    return call(operation::CountTasks{}, std::forward<Token>(token));
  }
  /// Pauses the queue. T: QueueCounts.
  template <class Token = asio::use_awaitable_t<>>
  auto pause(Token&& token = {}) const {
    return call(operation::SetUpQueue{.paused = true}, std::forward<Token>(token));
  }
  /// Resumes the queue. T: QueueCounts.
  template <class Token = asio::use_awaitable_t<>>
  auto resume(Token&& token = {}) const {
    return call(operation::SetUpQueue{.paused = false}, std::forward<Token>(token));
  }
  /// Sets how many tasks may be worked on at once; 0: any number. T: QueueCounts.
  template <class Token = asio::use_awaitable_t<>>
  auto limit(std::size_t max_leased, Token&& token = {}) const {
    return call(operation::SetUpQueue{.max_leased = max_leased}, std::forward<Token>(token));
  }

 private:
  template <class Operation, class Token>
  auto call(Operation operation, Token&& token) const {
    using Answer = typename Operation::Answer;
    return async_call<Answer>(
        executor_,
        [queue = queue_, operation = std::move(operation)](std::stop_token stop, Done<Answer> done) mutable {
          if (!queue) {
            return done(Error(ErrorCode::InvalidArgument, "this AsyncQueue is empty: open a queue first"));
          }
          queue->start(std::move(operation), std::move(stop), std::move(done));
        },
        std::forward<Token>(token), AsyncJob::Convert{executor_});
  }

  asio::any_io_executor executor_ = asio::system_executor();
  std::optional<Queue> queue_;
};

/// Opens a queue of an engine; see Holdfast::queue. Completes with `void(std::exception_ptr, AsyncQueue)`;
/// the AsyncQueue has this executor, and is empty on an error. Cancellation and errors as with async_tasks;
/// InvalidArgument also if the name is invalid.
template <class Token = asio::use_awaitable_t<>>
auto async_queue(const asio::any_io_executor& executor, const Holdfast& holdfast, std::string_view name,
                 const QueueOptions& options, Token&& token = {}) {
  return async_call<Queue>(
      executor,
      [holdfast, name = std::string(name), options](std::stop_token stop, Done<Queue> done) {
        holdfast.queue(name, options, std::move(stop), std::move(done));
      },
      std::forward<Token>(token), [executor](Queue queue) { return AsyncQueue(executor, std::move(queue)); });
}
/// The same with Holdfast::queue_options().
template <class Token = asio::use_awaitable_t<>>
  requires(!std::is_same_v<std::remove_cvref_t<Token>, QueueOptions>)
auto async_queue(const asio::any_io_executor& executor, const Holdfast& holdfast, std::string_view name,
                 Token&& token = {}) {
  const auto options = holdfast ? holdfast.queue_options() : QueueOptions();
  return async_queue(executor, holdfast, name, options, std::forward<Token>(token));
}

}  // namespace holdfast
