#pragma once

#include <chrono>
#include <holdfast/fence.hpp>
#include <holdfast/json.hpp>
#include <holdfast/task_types.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::cli {

/// Invalid arguments: exit 64. The text names the argument, the reason, and what to type instead.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The values of options and arguments. All throw UsageError, whose text starts with the name of the option.

/// As holdfast::parse_duration. Zero is allowed.
[[nodiscard]] std::chrono::milliseconds parse_duration(std::string_view option, std::string_view text);
[[nodiscard]] std::chrono::milliseconds parse_positive_duration(std::string_view option,
                                                                std::string_view text);
/// 15 digits as they are printed, or the plain number.
[[nodiscard]] Fence parse_fence(std::string_view option, std::string_view text);
/// The error says how to quote text for the shell. read_json_argument reads standard input for "-".
[[nodiscard]] Json parse_json_argument(std::string_view option, std::string_view text);
[[nodiscard]] Json read_json_argument(std::string_view option, std::string_view text);
/// Throws Error(Internal), which names the reader, if standard input ended by an error: streams do not tell.
void check_standard_input(std::string_view reader);
[[nodiscard]] TaskStatus parse_status_argument(std::string_view text);

/// Splits `name=JSON` at the first `=`; nothing if there is none or no name before it.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> split_assignment(std::string_view text);
/// Parses assignments into an object. A name must not occur twice.
[[nodiscard]] Json parse_assignments(const std::vector<std::string>& assignments);

}  // namespace holdfast::cli
