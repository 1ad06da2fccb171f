#pragma once

#include <holdfast/observer.hpp>
#include <holdfast/queue_types.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <memory>

#include "runtime/flow.hpp"
#include "runtime/runtime.hpp"
#include "runtime/unfinished.hpp"
#include "tasks/change_turns.hpp"

namespace holdfast {

/// State shared by the copies of one Tasks.
class TaskStore {
 public:
  TaskStore(std::shared_ptr<StorageBackend> engine, const TaskOptions& rules,
            std::shared_ptr<Observer> traced, std::shared_ptr<runtime::Runtime> of_locks,
            std::size_t dead_letters = QueueOptions{}.max_dead)
      : storage(std::move(engine)),
        options(rules),
        max_dead(dead_letters),
        observer(std::move(traced)),
        threads(std::move(of_locks)) {}

  /// For an operation that its caller starts now.
  [[nodiscard]] runtime::Flow completing() const noexcept {
    return runtime::Flow::completing(threads, runtime::CallersContext::of(observer.get()));
  }

  const std::shared_ptr<StorageBackend> storage;
  const TaskOptions options;
  const std::size_t max_dead;                ///< of each queue; 0: any number
  const std::shared_ptr<Observer> observer;  ///< may be null
  const std::shared_ptr<runtime::Runtime> threads;
  const runtime::Unfinished waiters;  ///< for tasks, claims included
  tasks::ChangeTurns changes;
};

}  // namespace holdfast
