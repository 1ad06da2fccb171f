#pragma once

#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

#include "command.hpp"

namespace holdfast::cli {

/// The limits and defaults of TaskOptions, as typed. Those of the command line and of a sidecar are their
/// own: a store knows none.
struct TaskLimits {
  int max_tasks = static_cast<int>(TaskOptions{}.max_tasks_per_owner);
  int max_variables = static_cast<int>(TaskOptions{}.max_variables_bytes);
  int max_string = static_cast<int>(TaskOptions{}.max_string_bytes);
  int max_depth = static_cast<int>(TaskOptions{}.max_variable_depth);
  std::optional<std::string> max_ttl;
  std::optional<std::string> default_ttl;
  std::optional<std::string> poll_interval;

  void add_to(Command command);
  /// Throws UsageError.
  [[nodiscard]] TaskOptions options(bool allow_anonymous) const;
};

}  // namespace holdfast::cli
