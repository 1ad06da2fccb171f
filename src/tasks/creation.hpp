#pragma once

#include <holdfast/queue_types.hpp>
#include <holdfast/storage_backend.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tasks/record.hpp"

namespace holdfast::tasks {

/// The creation of one task: builds the request, interprets the answer. No I/O.
class Creation {
 public:
  /// InvalidArgument, TooLarge, TooDeep or TtlTooLong for a task that this store does not accept.
  [[nodiscard]] static Result<Creation> prepare(const std::string& owner, const NewTask& task,
                                                const TaskOptions& options, WallTime now);

  /// The same for a task of a queue; `owner` is the name under which those are stored.
  [[nodiscard]] static Result<Creation> prepare(const std::string& owner, const NewQueueTask& task,
                                                const TaskOptions& options, WallTime now);
  /// A new task that does the work of this one again. Its id follows from the old task: two retries of one
  /// task create one.
  [[nodiscard]] static Result<Creation> prepare_retry(const Task& failed, const TaskOptions& options,
                                                      WallTime now);

  [[nodiscard]] Result<CreateRecord> request(std::optional<FencingToken> fence) const;
  [[nodiscard]] Result<Task> result(const CreateOutcome& outcome,
                                    const std::optional<FencingToken>& fence) const;

 private:
  Creation(RecordKey key, Task task, std::string origin, std::size_t quota, std::string request_key,
           std::optional<QueueTerms> queue = std::nullopt)
      : key_(std::move(key)),
        task_(std::move(task)),
        origin_(std::move(origin)),
        quota_(quota),
        request_key_(std::move(request_key)),
        queue_(std::move(queue)) {}

  RecordKey key_;
  Task task_;  ///< as it will be stored, except its version
  std::string origin_;
  std::size_t quota_;
  std::string request_key_;
  std::optional<QueueTerms> queue_;
};

}  // namespace holdfast::tasks
