#pragma once

#include <holdfast/task_types.hpp>
#include <optional>
#include <string>

namespace holdfast::tasks {

/// "no attempts left (5 of 5; 3 workers died)".
[[nodiscard]] inline std::string no_attempts_left(const QueueState& state) {
  auto text = "no attempts left (" + std::to_string(state.attempts) + " of " +
              std::to_string(state.terms.max_attempts);
  if (state.deaths == 1) text += "; 1 worker died";
  if (state.deaths > 1) text += "; " + std::to_string(state.deaths) + " workers died";
  return text + ")";
}

}  // namespace holdfast::tasks
