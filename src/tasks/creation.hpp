#pragma once

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

  [[nodiscard]] Result<CreateRecord> request(std::optional<FencingToken> fence) const;
  [[nodiscard]] Result<Task> result(const CreateOutcome& outcome,
                                    const std::optional<FencingToken>& fence) const;

 private:
  Creation(RecordKey key, Task task, std::string origin, std::size_t quota, std::string request_key)
      : key_(std::move(key)),
        task_(std::move(task)),
        origin_(std::move(origin)),
        quota_(quota),
        request_key_(std::move(request_key)) {}

  RecordKey key_;
  Task task_;  ///< as it will be stored, except its version
  std::string origin_;
  std::size_t quota_;
  std::string request_key_;
};

}  // namespace holdfast::tasks
