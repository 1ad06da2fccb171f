#pragma once

#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>

#include "flow/flow.hpp"
#include "sys/worker_pool.hpp"

namespace holdfast {

/// What the copies of one Tasks share. Threads start when they are first needed.
class TaskStore {
 public:
  TaskStore(std::shared_ptr<StorageBackend> engine, const TaskOptions& rules)
      : storage(std::move(engine)), options(rules) {}

  const std::shared_ptr<StorageBackend> storage;
  const TaskOptions options;
  const std::shared_ptr<flow::Background> background = std::make_shared<flow::Background>();
  /// Run user code only, that of stopped claims; one that blocks does not hold up the next.
  sys::WorkerPool callbacks{1000};
};

}  // namespace holdfast
