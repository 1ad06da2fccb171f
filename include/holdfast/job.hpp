#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/guard.hpp>
#include <holdfast/queue_types.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace holdfast {

class ClaimedJob;
class Job;

namespace operation {

/// The operation of Job::complete, Job::fail, Job::retry and Job::give_back.
struct HOLDFAST_EXPORT EndJob {
  /// The task after the operation.
  using Answer = Task;
  /// How the attempt ends.
  enum class How : std::uint8_t {
    completed,  ///< the task is done
    failed,     ///< the task cannot be done: no other attempt is made
    retry,      ///< the attempt failed: another is made later, or the task is failed if this was the last one
    give_back,  ///< the attempt does not count: the task goes back to its place
  };
  /// How the attempt ends.
  How how{};
  /// completed, failed: the result; empty: as it is.
  std::optional<Json> result = std::nullopt;
  /// The new status message; empty: the old one is removed. Not used with `give_back`.
  std::optional<std::string> message = std::nullopt;
  /// retry: how long the task is not claimable; empty: as RetryOptions::delay.
  std::optional<std::chrono::milliseconds> delay = std::nullopt;
};

/// The operation of Job::complete_and_claim.
struct HOLDFAST_EXPORT EndJobAndClaim {
  /// The next job; empty if no task can be claimed.
  using Answer = std::optional<Job>;
  /// How the attempt ends.
  EndJob end;
  /// How to claim the next task of the same queue: a copy of a ClaimOptions.
  detail::Owned<ClaimOptions> how;
};

/// The operation of Job::set_variables.
struct HOLDFAST_EXPORT SetJobVariables {
  /// The task after the change.
  using Answer = Task;
  /// An object; a member that is null deletes the variable.
  Json changes;
};

}  // namespace operation

/// A task of a queue that this process works on: one attempt. Its lease is renewed while this object lives,
/// and every write through it carries the fence of the claim. Queue::claim_next returns one.
///
/// @code
/// while (auto job = queue.claim_next({.lease = 30s, .wait = holdfast::no_time_limit})) {
///   try {
///     job->complete(render(job->task().variables, job->stopped()));
///   } catch (const holdfast::Error& refused) {  // cancelled, removed, or claimed by another worker
///     std::cerr << refused.what() << '\n';
///   }
/// }
/// @endcode
///
/// *Outcome.* The outcome and the end of the lease are one request to the engine. Of all workers that were
/// ever given a task, the outcome of at most one is accepted: a late one fails with StaleFence. What a late
/// worker did elsewhere is not undone: pass id, attempt and fence on.
///
/// *Loss.* stopped() is triggered ClaimOptions::notice before the lease can expire or the attempt's time
/// limit is over, and about a second after the task was cancelled, finished or removed by another client.
/// remaining() is the time that the worker then has to stop. An outcome is sent nevertheless, and accepted if
/// no other worker has claimed the task since. at_risk() is an earlier warning that may pass.
///
/// *Errors.* Outcomes and writes throw NotFound (the task is gone), InvalidTransition (it is final: for
/// example cancelled), StaleFence (another worker has claimed it), WrongLock, ConcurrentChange, TooLarge,
/// TooDeep, InvalidArgument, and the errors of the engine. After an error that says that the task is not this
/// job's any more, stopped() is triggered. After a transient error the job is as before, and the same call
/// can be repeated: an outcome that was accepted already is accepted again. A retry or give-back that was
/// accepted already gives StaleFence if another worker has claimed the task since; the message says that it
/// may have been accepted. On an empty or ended job all functions but stopped(), `operator bool` and
/// give_back_in_background() give InvalidArgument; in a forked child ServiceUnavailable.
///
/// *Content.* A message is never refused: bytes that are not UTF-8 become U+FFFD, and what exceeds
/// TaskOptions::max_string_bytes is cut off. A result is: TooDeep if it nests more than 100 containers,
/// TooLarge if the task's record would be. Retry the task then, with a message, or fail it.
///
/// *Lifetime.* Movable; a moved-from job is empty. The destructor gives the task back in the background and
/// does not block. After an outcome that was TooDeep or TooLarge it retries the task instead, as give_back()
/// does then, so that the attempt counts: or a task whose result cannot be stored would be worked on for
/// ever. The overloads with a Done complete it once, inline or on a thread of the library.
class HOLDFAST_EXPORT Job {
 public:
  /// Creates an empty job.
  Job() noexcept;
  /// Moves the job; `other` is empty afterwards.
  Job(Job&& other) noexcept;
  /// Moves the job, after the job that this object had was given back in the background.
  Job& operator=(Job&& other) noexcept;
  /// Gives the task back in the background, unless the job has ended: the attempt does not count. See
  /// *Lifetime*.
  ~Job();

  /// Returns false for an empty job and after its end. Says nothing about loss.
  [[nodiscard]] explicit operator bool() const noexcept;

  /// Returns the task as it was claimed, or last written through this job. No I/O.
  [[nodiscard]] Task task() const;
  /// Returns the task's id.
  [[nodiscard]] std::string id() const;
  /// Returns the name of the queue.
  [[nodiscard]] std::string queue() const;
  /// Returns which attempt this is; the first is 1.
  [[nodiscard]] std::uint32_t attempt() const;
  /// Returns the fence of this claim: higher than that of every earlier one of the task.
  [[nodiscard]] Fence fence() const;
  /// Returns the fence with the authority that it belongs to.
  [[nodiscard]] FencingToken token() const;
  /// Returns how long the lease is proven; zero after the end of the job, and if the engine does not have the
  /// lease any more. For a lost lease, this is how long the worker has to stop.
  [[nodiscard]] std::chrono::nanoseconds remaining() const;
  /// Returns a token that is triggered when the work should stop; see above. Not triggered by this job's own
  /// end. Stop callbacks run on a thread that may block. An empty job returns a token without a stop state.
  [[nodiscard]] std::stop_token stopped() const noexcept;
  /// Returns true if the task was cancelled, as far as is known. No I/O.
  [[nodiscard]] bool cancelled() const;
  /// Returns true if the task no longer exists, as far as is known. No I/O.
  [[nodiscard]] bool gone() const;
  /// Returns why the lease was lost; empty if it was not. LossReason::max_hold: the attempt's time limit.
  [[nodiscard]] std::optional<LossReason> loss_reason() const;
  /// Returns whether the last renewal failed, or has had no answer for a sixth of the lease. False again
  /// after the next success. Not a loss. No I/O.
  [[nodiscard]] bool at_risk() const;
  /// Sets the callback that runs with each change of at_risk(), as Guard::on_at_risk. It does not run after
  /// stopped() was triggered or the job has ended, but a running call is not waited for.
  void on_at_risk(std::function<void(bool at_risk)> callback);

  /// Merges `changes` into the variables, as Tasks::set_variables, and returns the task: for progress. Two
  /// requests to the engine.
  Task set_variables(JsonView changes, std::stop_token stop = {}) {
    return run(operation::SetJobVariables{Json(changes)}, std::move(stop));
  }
  /// Marks the task completed with this result, ends the job, and returns the task.
  Task complete(JsonView result = {}, std::optional<std::string_view> message = {},
                std::stop_token stop = {}) {
    return run(completed(result, message), std::move(stop));
  }
  /// Does the same and claims the next task of the queue, in one request to the engine; waits for one as
  /// `how` says. If it throws, `operator bool` shows whether the outcome was accepted.
  [[nodiscard]] std::optional<Job> complete_and_claim(JsonView result, const ClaimOptions& how = {},
                                                      std::stop_token stop = {});
  /// Marks the task failed for good, ends the job, and returns the task.
  Task fail(std::optional<std::string_view> message = {}, std::stop_token stop = {}) {
    return run(operation::EndJob{.how = operation::EndJob::How::failed, .message = detail::owned(message)},
               std::move(stop));
  }
  /// Marks the task failed for good with a result that describes the failure; as fail().
  Task fail_with_result(JsonView result, std::optional<std::string_view> message = {},
                        std::stop_token stop = {}) {
    return run(
        operation::EndJob{
            .how = operation::EndJob::How::failed, .result = Json(result), .message = detail::owned(message)},
        std::move(stop));
  }
  /// Ends the job and lets the task be attempted again later; after the last attempt the task is failed.
  /// Returns the task.
  Task retry(const RetryOptions& how = {}, std::stop_token stop = {}) {
    return run(
        operation::EndJob{
            .how = operation::EndJob::How::retry, .message = detail::owned(how.message), .delay = how.delay},
        std::move(stop));
  }
  /// Ends the job and puts the task back to its place in the queue: the attempt does not count. Returns the
  /// task.
  Task give_back(std::stop_token stop = {}) {
    return run(operation::EndJob{.how = operation::EndJob::How::give_back}, std::move(stop));
  }

  /// Runs operation::EndJob, EndJobAndClaim or SetJobVariables on this thread.
  template <class Operation>
  typename Operation::Answer run(Operation operation, std::stop_token stop = {});
  /// Starts the same without blocking, and completes `done` with what run() returns or throws. The job may be
  /// moved or destroyed meanwhile; a job that is destroyed while its outcome is under way is not given back.
  template <class Operation>
  void start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done);

  /// Completes `done` when stopped() is triggered, immediately if it already is. Fails with Aborted when the
  /// job ends first, and on a stop request, which leaves the job as it is.
  void wait_stopped(std::stop_token stop, Done<Ok> done) const;
  /// Gives the task back in the background, as the destructor: returns at once and leaves the job empty.
  void give_back_in_background() noexcept;

 private:
  friend class ClaimedJob;
  explicit Job(std::shared_ptr<ClaimedJob> claimed) noexcept;
  static operation::EndJob completed(JsonView result, std::optional<std::string_view> message) {
    return {
        .how = operation::EndJob::How::completed, .result = Json(result), .message = detail::owned(message)};
  }
  [[nodiscard]] std::optional<Error> unusable() const;
  const std::shared_ptr<ClaimedJob>& claimed() const;
  std::shared_ptr<ClaimedJob> claimed_;
};

inline std::optional<Job> Job::complete_and_claim(JsonView result, const ClaimOptions& how,
                                                  std::stop_token stop) {
  return run(operation::EndJobAndClaim{completed(result, {}), detail::owned(how)}, std::move(stop));
}

}  // namespace holdfast
