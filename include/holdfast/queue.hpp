#pragma once

#include <functional>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/job.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/queue_operations.hpp>
#include <holdfast/queue_types.hpp>
#include <holdfast/task_types.hpp>
#include <holdfast/task_watch.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace holdfast {

class QueueStore;

/// A named queue of tasks: clients add tasks, and workers claim the next one. Holdfast::queue() returns one.
///
/// @code
/// auto queue = hf.queue("render");
/// const auto task = queue.add({.method = "thumbnail", .variables = parameters, .priority = 5});
/// // in each worker:
/// while (auto job = queue.claim_next({.lease = 30s, .wait = holdfast::no_time_limit})) {
///   job->complete(render(job->task().variables));
/// }
/// @endcode
///
/// *Promise.* A task is started at least once, and the outcome of at most one worker is accepted: see Job.
///
/// *Order.* By priority, strictly, then by when a task became due. A task that is retried goes behind the
/// others; one that is given back keeps its place.
///
/// *Limits.* limit() sets how many tasks of the queue are worked on at once, NewQueueTask::limit_key how many
/// with one key.
///
/// *Dead letters.* A failed task is kept longer than others (NewQueueTask::failed_retention), and a queue
/// keeps a limited number of them (QueueOptions::max_dead). list() with the status `failed` lists them, last
/// failed first, at a cost that does not depend on the other tasks; retry() does their work again.
///
/// *Time.* A task does not expire until its end, and is kept for its retention after that. A task that is not
/// finished some time after it was due (NewQueueTask::max_age) is failed, and so is one without attempts: by
/// the next client that claims, gets, lists or waits for it.
///
/// *Copies and threads.* Cheap to copy; copies share everything. All functions may be called from any thread.
/// They block and throw holdfast::Error; start() is for callers that must not block. Errors, unknown
/// outcomes, cancellation and fork are as those of Tasks. The tasks of a queue belong to no owner: Tasks does
/// not see them.
class HOLDFAST_EXPORT Queue {
 public:
  /// Returns the name of the queue.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Adds a task in the status `working` and returns it. With NewQueueTask::request_key it returns the
  /// existing task if the same request was made before. One request to the engine; its cost does not depend
  /// on the length of the queue.
  ///
  /// Throws QuotaExceeded, RequestKeyConflict, TooLarge, TooDeep and InvalidArgument. After an unknown
  /// outcome, retry with the same request key.
  Task add(const NewQueueTask& task = {}, std::stop_token stop = {}) const {
    return run(operation::AddTask{detail::owned(task)}, std::move(stop));
  }

  /// Claims the next task, waiting for one as `how` says, and returns the job; empty if no task can be
  /// claimed. One request to the engine if there is a task; one more for each hundred that have become due,
  /// or are blocked by their limit key, since the last claim.
  ///
  /// While it waits, it is woken when a task becomes ready if the engine can wake it, looks again when a
  /// delay or a lease ends, and polls once a second. Transient errors are waited out for up to a minute.
  /// Throws Aborted after a stop request.
  [[nodiscard]] std::optional<Job> claim_next(const ClaimOptions& how = {}, std::stop_token stop = {}) const {
    return run(operation::ClaimNextTask{detail::owned(how)}, std::move(stop));
  }
  /// Claims up to `limit` (at most 100) tasks in one request; as claim_next(). It does not wait until there
  /// are so many.
  [[nodiscard]] std::vector<Job> claim_batch(std::size_t limit, const ClaimOptions& how = {},
                                             std::stop_token stop = {}) const {
    return run(operation::ClaimNextTasks{detail::owned(how), limit}, std::move(stop));
  }
  /// Claims this task, whether it is ready or delayed and whether or not the queue is paused. Empty if it
  /// does not exist, or is claimed, exhausted or final; get() shows which.
  [[nodiscard]] std::optional<Job> try_claim(std::string_view id, const ClaimOptions& how = {},
                                             std::stop_token stop = {}) const {
    return run(operation::TryClaimTask{std::string(id), detail::owned(how)}, std::move(stop));
  }

  // As the functions of Tasks.

  /// Reads a task: Task::queue shows its place, attempts and worker.
  [[nodiscard]] Task get(std::string_view id, std::stop_token stop = {}) const {
    return run(operation::GetTask{{}, std::string(id)}, std::move(stop));
  }
  /// Lists the tasks of the queue, one page at a time, newest first.
  [[nodiscard]] TaskPage list(const ListTasks& what = {}, std::stop_token stop = {}) const {
    return run(operation::ListTasksOfOwner{{}, detail::owned(what)}, std::move(stop));
  }
  /// Marks the task cancelled and returns it. Its worker is stopped.
  Task cancel(std::string_view id, std::optional<std::string_view> message = {},
              std::stop_token stop = {}) const {
    return run(operation::CancelTask{{}, std::string(id), detail::owned(message)}, std::move(stop));
  }
  /// Removes the task, in any status. Returns false if it did not exist.
  bool remove(std::string_view id, std::stop_token stop = {}) const {
    return run(operation::RemoveTask{{}, std::string(id)}, std::move(stop));
  }
  /// Returns the result of a final task; empty if it has none. Throws NotReady if the task is not final.
  [[nodiscard]] std::optional<Json> get_result(std::string_view id, std::stop_token stop = {}) const {
    return run(operation::GetTaskResult{{}, std::string(id)}, std::move(stop));
  }
  /// Waits until the task is final and returns it; empty after `timeout`. As Tasks::wait.
  [[nodiscard]] std::optional<Task> wait(std::string_view id,
                                         std::chrono::milliseconds timeout = no_time_limit,
                                         std::stop_token stop = {}) const {
    return run(operation::AwaitTask{{}, std::string(id), timeout}, std::move(stop));
  }

  /// Follows one task: see TaskWatch. No I/O until TaskWatch::next.
  [[nodiscard]] TaskWatch watch(std::string_view id) const;
  /// Follows all tasks of the queue.
  [[nodiscard]] TaskWatch watch() const;
  /// Appends to the output of the command that works on the task; as Tasks::append_output.
  OutputRun append_output(std::string_view id, const NewOutput& what, std::stop_token stop = {}) const {
    return run(operation::AppendTaskOutput{{}, std::string(id), detail::owned(what)}, std::move(stop));
  }
  /// Reads the output of an attempt; as Tasks::read_output.
  [[nodiscard]] KeptOutput read_output(std::string_view id, const OutputPart& part = {},
                                       std::stop_token stop = {}) const {
    return run(operation::ReadTaskOutput{{}, std::string(id), part}, std::move(stop));
  }

  /// Adds a new task that does the work of a failed or cancelled one again, and returns it. The old task
  /// stays as it is. As long as the new task exists, a second retry returns it. Throws InvalidTransition if
  /// the task is not failed or cancelled.
  Task retry(std::string_view id, std::stop_token stop = {}) const {
    return run(operation::RetryTask{std::string(id)}, std::move(stop));
  }

  /// Counts the tasks of the queue. The cost does not depend on their number.
  [[nodiscard]] QueueCounts counts(std::stop_token stop = {}) const {
    return run(operation::CountTasks{}, std::move(stop));
  }
  /// Pauses the queue: claim_next() claims nothing until resume(). Jobs that run go on.
  QueueCounts pause(std::stop_token stop = {}) const {
    return run(operation::SetUpQueue{.paused = true}, std::move(stop));
  }
  /// Resumes the queue.
  QueueCounts resume(std::stop_token stop = {}) const {
    return run(operation::SetUpQueue{.paused = false}, std::move(stop));
  }
  /// Sets how many tasks may be worked on at once, by all workers together: at most 1,000,000,000; 0: any
  /// number.
  QueueCounts limit(std::size_t max_leased, std::stop_token stop = {}) const {
    return run(operation::SetUpQueue{.max_leased = max_leased}, std::move(stop));
  }

  /// Returns a descriptor that stands for this process, for programs whose work is done by other processes: a
  /// task is not given to another worker because of ClaimOptions::ends_with_process while any process has a
  /// copy of it. It belongs to the store, and is close-on-exec. -1 if the engine does not notice the end of a
  /// process. No I/O after the first call.
  [[nodiscard]] int process_mark() const noexcept;

  /// Runs one of the operations above on this thread; see <holdfast/queue_operations.hpp>.
  template <class Operation>
  typename Operation::Answer run(Operation operation, std::stop_token stop = {}) const;
  /// Starts one of the operations above without blocking. `done` is completed exactly once with what run()
  /// returns or throws; see Locks::start.
  template <class Operation>
  void start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const;

 private:
  friend class Holdfast;
  Queue(std::shared_ptr<const QueueStore> store, std::string_view name);
  std::shared_ptr<const QueueStore> store_;
  std::string name_;
  std::string owner_;
};

}  // namespace holdfast
