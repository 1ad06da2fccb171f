#pragma once

#include <holdfast/observer.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>

#include "runtime/flow.hpp"
#include "runtime/runtime.hpp"
#include "runtime/unfinished.hpp"

namespace holdfast {

/// State shared by the copies of one Tasks.
class TaskStore {
 public:
  TaskStore(std::shared_ptr<StorageBackend> engine, const TaskOptions& rules,
            std::shared_ptr<Observer> traced, std::shared_ptr<runtime::Runtime> of_locks)
      : storage(std::move(engine)),
        options(rules),
        observer(std::move(traced)),
        threads(std::move(of_locks)) {}

  /// For an operation that its caller starts now.
  [[nodiscard]] runtime::Flow completing() const noexcept {
    return runtime::Flow::completing(threads, runtime::CallersContext::of(observer.get()));
  }

  const std::shared_ptr<StorageBackend> storage;
  const TaskOptions options;
  const std::shared_ptr<Observer> observer;  ///< may be null
  const std::shared_ptr<runtime::Runtime> threads;
  const runtime::Unfinished waiters;  ///< for tasks, claims included
};

}  // namespace holdfast
