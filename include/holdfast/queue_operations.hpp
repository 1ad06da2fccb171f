#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/job.hpp>
#include <holdfast/queue_requests.hpp>
#include <holdfast/queue_types.hpp>
#include <holdfast/task_operations.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>
#include <vector>

/// The operations of Queue as values, which own their arguments: see <holdfast/task_operations.hpp>. Of the
/// operations there, Queue also runs GetTask, ListTasksOfOwner, GetTaskResult, SetTaskVariables, CancelTask,
/// RemoveTask, AwaitTask, AppendTaskOutput and ReadTaskOutput; their owner does not count, because the queue
/// is meant.
namespace holdfast::operation {

/// The operation of Queue::add.
struct HOLDFAST_EXPORT AddTask {
  /// The task.
  using Answer = Task;
  /// The initial values: a copy of a NewQueueTask.
  detail::Owned<NewQueueTask> task;
};

/// The operation of Queue::claim_next and Holdfast::claim_next.
struct HOLDFAST_EXPORT ClaimNextTask {
  /// The job; empty if no task can be claimed.
  using Answer = std::optional<Job>;
  /// How to claim: a copy of a ClaimOptions.
  detail::Owned<ClaimOptions> how;
  /// The names of the queues, in the order in which they are tried; empty: this queue.
  std::vector<std::string> queues = {};
};

/// The operation of Queue::claim_batch.
struct HOLDFAST_EXPORT ClaimNextTasks {
  /// The jobs, in the order of the queue; empty if no task can be claimed.
  using Answer = std::vector<Job>;
  /// How to claim: a copy of a ClaimOptions.
  detail::Owned<ClaimOptions> how;
  /// The greatest number of tasks; clamped to 1..100.
  std::size_t limit = 1;
  /// As ClaimNextTask::queues.
  std::vector<std::string> queues = {};
};

/// The operation of Queue::try_claim.
struct HOLDFAST_EXPORT TryClaimTask {
  /// The job; empty if the task cannot be claimed.
  using Answer = std::optional<Job>;
  /// The id of the task.
  std::string id;
  /// How to claim: a copy of a ClaimOptions; `wait` is not used.
  detail::Owned<ClaimOptions> how;
};

/// The operation of Queue::retry.
struct HOLDFAST_EXPORT RetryTask {
  /// The new task.
  using Answer = Task;
  /// The id of the failed task.
  std::string id;
};

/// The operation of Queue::counts.
struct HOLDFAST_EXPORT CountTasks {
  /// The counts.
  using Answer = QueueCounts;
};

/// The operation of Queue::pause, Queue::resume and Queue::limit.
struct HOLDFAST_EXPORT SetUpQueue {
  /// The queue after the change.
  using Answer = QueueCounts;
  /// Pause or resume; empty: as it is.
  std::optional<bool> paused = std::nullopt;
  /// How many tasks may be worked on at once; 0: any number; empty: as it is.
  std::optional<std::size_t> max_leased = std::nullopt;
};

/// The operation of Holdfast::queues: lists the queues of the store, whichever queue runs it.
struct HOLDFAST_EXPORT ListQueues {
  /// The page.
  using Answer = QueuePage;
  /// Empty for the first page, else QueuePage::cursor of the page before.
  std::string cursor = {};
  /// The greatest number of names on the page; clamped to 1..1000.
  std::size_t limit = 100;
};

}  // namespace holdfast::operation
