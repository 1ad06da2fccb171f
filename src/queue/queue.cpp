#include <holdfast/queue.hpp>
#include <tuple>

#include "queue/operations.hpp"
#include "queue/queue_store.hpp"
#include "tasks/operations.hpp"
#include "tasks/watched_tasks.hpp"

namespace holdfast {
namespace {

using runtime::Flow;
using runtime::Op;

/// Operations of tasks run on those of the queue.
template <class Operation>
Op<typename Operation::Answer> begin(queue::QueueCall call, Operation operation) {
  if constexpr (requires { tasks::perform(call.of_tasks(), std::move(operation)); }) {
    return tasks::perform(call.of_tasks(), std::move(operation));
  } else {
    return queue::perform(std::move(call), std::move(operation));
  }
}

}  // namespace

Queue::Queue(std::shared_ptr<const QueueStore> store, std::string_view name)
    : store_(std::move(store)), name_(name), owner_(tasks::owner_of_queue(name).value_or_throw()) {}

template <class Operation>
typename Operation::Answer Queue::run(Operation operation, std::stop_token stop) const {
  return tasks::run(
      begin<Operation>({.store = store_, .owner = owner_, .flow = Flow::blocking(), .stop = std::move(stop)},
                       std::move(operation)));
}

template <class Operation>
void Queue::start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const {
  tasks::start(
      *store_->tasks->threads,
      begin<Operation>(
          {.store = store_, .owner = owner_, .flow = store_->tasks->completing(), .stop = std::move(stop)},
          std::move(operation)),
      std::move(done));
}

/// Makes the compiler emit both forms of each operation.
template <class... Operations>
struct QueueOperations {
  static constexpr auto forms = std::tuple{&Queue::run<Operations>..., &Queue::start<Operations>...};
};
template struct QueueOperations<operation::AddTask, operation::ClaimNextTask, operation::ClaimNextTasks,
                                operation::TryClaimTask, operation::RetryTask, operation::CountTasks,
                                operation::SetUpQueue, operation::ListQueues, operation::GetTask,
                                operation::ListTasksOfOwner, operation::GetTaskResult,
                                operation::SetTaskVariables, operation::CancelTask, operation::RemoveTask,
                                operation::AwaitTask, operation::AppendTaskOutput, operation::ReadTaskOutput>;

int Queue::process_mark() const noexcept {
  return store_->tasks->storage->process_mark();
}

TaskWatch Queue::watch(std::string_view id) const {
  return WatchedTasks::watch(store_->call(Flow::blocking(), owner_, {}), {}, std::string(id));
}

TaskWatch Queue::watch() const {
  return WatchedTasks::watch(store_->call(Flow::blocking(), owner_, {}), {}, std::nullopt);
}

}  // namespace holdfast
