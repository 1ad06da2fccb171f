#pragma once

#include <holdfast/observer.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>

#include "runtime/flow.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast {

/// What the copies of one Tasks share. Threads start when they are first needed.
class TaskStore {
 public:
  TaskStore(std::shared_ptr<StorageBackend> engine, const TaskOptions& rules,
            std::shared_ptr<Observer> traced)
      : storage(std::move(engine)), options(rules), observer(std::move(traced)) {}

  /// For an operation that is called here and now.
  [[nodiscard]] runtime::Flow completing() const noexcept {
    return runtime::Flow::completing(background, runtime::CallersContext::of(observer.get()));
  }

  const std::shared_ptr<StorageBackend> storage;
  const TaskOptions options;
  const std::shared_ptr<Observer> observer;  ///< may be null
  const std::shared_ptr<runtime::Background> background = std::make_shared<runtime::Background>();
  /// Run user code only, that of stopped claims; one that blocks does not hold up the next.
  runtime::WorkerPool callbacks{1000};
};

}  // namespace holdfast
