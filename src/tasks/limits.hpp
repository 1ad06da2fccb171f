#pragma once

#include <holdfast/result.hpp>
#include <holdfast/task_types.hpp>
#include <string_view>

#include "tasks/members.hpp"

namespace holdfast::tasks {

/// How deep a result may be nested: the JSON parser of pmcp-tasks refuses a record with more than 128.
inline constexpr std::size_t max_result_nesting = 100;

/// How many containers are open at once, at most.
[[nodiscard]] std::size_t nesting(std::string_view json);

/// TooDeep for a result that may not be stored.
[[nodiscard]] Status check_result(const Json& result);

/// The changes of variables that this object is, if it is one (InvalidArgument) and they may be made
/// (TooDeep, TooLarge). Values are compact (json_forms.hpp).
[[nodiscard]] Result<Members> checked_variables(const Json& changes, const TaskOptions& options);

/// TooLarge if they are too many together.
[[nodiscard]] Status check_size(const Members& variables, const TaskOptions& options);

}  // namespace holdfast::tasks
