#pragma once

#include <holdfast/observer.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>

#include "flow/flow.hpp"
#include "sys/worker_pool.hpp"

namespace holdfast {

/// What the copies of one Tasks share. Threads start when they are first needed.
class TaskStore {
 public:
  TaskStore(std::shared_ptr<StorageBackend> engine, const TaskOptions& rules,
            std::shared_ptr<Observer> traced)
      : storage(std::move(engine)), options(rules), observer(std::move(traced)) {}

  /// For an operation that is called here and now.
  [[nodiscard]] flow::Flow completing() const noexcept {
    return flow::Flow::completing(background, sys::CallersContext::of(observer.get()));
  }

  const std::shared_ptr<StorageBackend> storage;
  const TaskOptions options;
  const std::shared_ptr<Observer> observer;  ///< may be null
  const std::shared_ptr<flow::Background> background = std::make_shared<flow::Background>();
  /// Run user code only, that of stopped claims; one that blocks does not hold up the next.
  sys::WorkerPool callbacks{1000};
};

}  // namespace holdfast
