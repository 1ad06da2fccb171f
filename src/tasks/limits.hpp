#pragma once

#include <holdfast/result.hpp>
#include <holdfast/task_types.hpp>
#include <nlohmann/json.hpp>
#include <string_view>

namespace holdfast::tasks {

/// For whatever else is stored: the JSON library prints by recursion, which must not be driven to the end of
/// a thread's stack.
inline constexpr std::size_t max_nesting = 200;

/// How many containers are open at once, at most, in valid JSON. Not recursive.
[[nodiscard]] std::size_t nesting(std::string_view json) noexcept;

/// Parsed, if it is not nested deeper than `max_nesting` (TooDeep). `what` is its name for the message.
[[nodiscard]] Result<nlohmann::ordered_json> parsed(const Json& json, std::string_view what);

/// TooDeep, TooLarge or InvalidArgument (not an object) for changes of variables that may not be made.
[[nodiscard]] Status check_variables(const nlohmann::ordered_json& changes, const TaskOptions& options);

/// TooLarge if they are too many together.
[[nodiscard]] Status check_size(const nlohmann::ordered_json& variables, const TaskOptions& options);

}  // namespace holdfast::tasks
