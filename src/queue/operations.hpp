#pragma once

#include <holdfast/queue.hpp>

#include "queue/queue_store.hpp"
#include "runtime/op.hpp"

namespace holdfast::queue {

/// One call of an operation on a queue.
struct QueueCall {
  std::shared_ptr<const QueueStore> store;
  std::string owner;  ///< the stored name of the queue
  runtime::Flow flow;
  std::stop_token stop;

  [[nodiscard]] tasks::Call of_tasks() const { return store->call(flow, owner, stop); }
};

// The operations of Queue; see there for their contracts. Arguments are the caller's, unchecked.

[[nodiscard]] runtime::Op<Task> perform(QueueCall call, operation::AddTask what);
[[nodiscard]] runtime::Op<std::optional<Job>> perform(QueueCall call, operation::ClaimNextTask what);
[[nodiscard]] runtime::Op<std::vector<Job>> perform(QueueCall call, operation::ClaimNextTasks what);
[[nodiscard]] runtime::Op<std::optional<Job>> perform(QueueCall call, operation::TryClaimTask what);
[[nodiscard]] runtime::Op<Task> perform(QueueCall call, operation::RetryTask what);
[[nodiscard]] runtime::Op<QueueCounts> perform(QueueCall call, operation::CountTasks what);
[[nodiscard]] runtime::Op<QueueCounts> perform(QueueCall call, operation::SetUpQueue what);
[[nodiscard]] runtime::Op<QueuePage> perform(QueueCall call, operation::ListQueues what);

}  // namespace holdfast::queue
