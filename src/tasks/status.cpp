#include <array>
#include <holdfast/task_types.hpp>

namespace holdfast {
namespace {

constexpr std::array<std::string_view, 5> names{"working", "input_required", "completed", "failed",
                                                "cancelled"};

}  // namespace

std::string_view to_string(TaskStatus status) noexcept {
  return names[static_cast<std::size_t>(status)];
}

std::optional<TaskStatus> parse_task_status(std::string_view text) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<TaskStatus>(i);
  }
  return std::nullopt;
}

bool is_final(TaskStatus status) noexcept {
  return status != TaskStatus::working && status != TaskStatus::input_required;
}

bool may_become(TaskStatus from, TaskStatus to) noexcept {
  return !is_final(from) && from != to;
}

}  // namespace holdfast
