#pragma once

#include <holdfast/result.hpp>
#include <holdfast/task_types.hpp>
#include <string>
#include <string_view>

#include "tasks/members.hpp"

namespace holdfast::tasks {

/// Deepest nesting of a result: the JSON parser of pmcp-tasks rejects a record with more than 128 levels.
inline constexpr std::size_t max_result_nesting = 100;

/// The deepest nesting of containers.
[[nodiscard]] std::size_t nesting(std::string_view json);

/// TooDeep for a result that may not be stored.
[[nodiscard]] Status check_result(const Json& result);

/// The message with which a worker ends its attempt. It is often the text of another library's error, and
/// must not be refused: the attempt would not count. So bytes that are not UTF-8 become U+FFFD, and what
/// exceeds the limit is cut off.
[[nodiscard]] std::string storable_message(std::string_view message, const TaskOptions& options);

/// Parses an object as changes of variables. InvalidArgument if it is not an object; TooDeep or TooLarge if
/// the changes exceed a limit. Values are compact (json_forms.hpp).
[[nodiscard]] Result<Members> checked_variables(const Json& changes, const TaskOptions& options);

/// TooLarge if the variables together exceed the limit.
[[nodiscard]] Status check_size(const Members& variables, const TaskOptions& options);

}  // namespace holdfast::tasks
