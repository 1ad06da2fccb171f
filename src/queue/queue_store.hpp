#pragma once

#include <holdfast/queue.hpp>
#include <memory>
#include <string>

#include "queue/renewals.hpp"
#include "tasks/call.hpp"
#include "tasks/store.hpp"

namespace holdfast {

/// State shared by the queues and jobs of one Queue object.
class QueueStore {
 public:
  QueueStore(std::shared_ptr<TaskStore> in, std::shared_ptr<queue::Renewals> by, std::string label)
      : tasks(std::move(in)), renewals(std::move(by)), worker(std::move(label)) {}

  [[nodiscard]] tasks::Call call(runtime::Flow flow, std::string owner, std::stop_token stop) const {
    return {.flow = std::move(flow),
            .store = tasks,
            .stop = std::move(stop),
            .fence = {},
            .incarnation = {},
            .reserved_owner = std::move(owner)};
  }

  const std::shared_ptr<TaskStore> tasks;  ///< with the limits of the queue
  const std::shared_ptr<queue::Renewals> renewals;
  const std::string worker;  ///< the label of claims that name no other
};

}  // namespace holdfast
