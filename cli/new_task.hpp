#pragma once

#include <holdfast/task_types.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"

namespace holdfast::cli {

/// --ttl, --method and --request-key: what a task begins with. Shared by `task create` and `task run`.
struct NewTaskOptions {
  std::optional<std::string> ttl;
  std::string method;
  std::optional<std::string> request_key;

  void add_to(Command command);
  /// Its texts are those here. Throws UsageError.
  [[nodiscard]] NewTask request() const;
  [[nodiscard]] bool given() const { return ttl || !method.empty() || request_key; }
};

/// An object of them. Throws UsageError for one that is none, for what is not JSON, and for a name twice.
[[nodiscard]] Json parse_assignments(const std::vector<std::string>& assignments);

}  // namespace holdfast::cli
