#pragma once

#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

#include "arguments/command.hpp"

namespace holdfast::cli {

/// Which tasks a list shows, and in which order, as typed.
struct TaskFilter {
  std::optional<std::string> status;
  std::optional<std::string> older_than;
  bool oldest_first = false;
  bool unclaimed = false;

  void add_to(Command command);
  /// Without cursor and limit. Throws UsageError.
  [[nodiscard]] ListTasks selection() const;
  /// Whether it may leave tasks out.
  [[nodiscard]] bool is_set() const noexcept { return status || older_than || unclaimed; }
  /// The options, quoted for a shell, each with a space before it.
  [[nodiscard]] std::string as_typed() const;
};

}  // namespace holdfast::cli
