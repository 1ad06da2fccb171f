#include "tasks/limits.hpp"

#include <algorithm>
#include <utility>

#include "core/utf8.hpp"
#include "tasks/json_forms.hpp"

namespace holdfast::tasks {
namespace {

/// A change may have this many times the bytes that all variables may have together: it may delete some, and
/// `"n":null` is longer than the shortest variable. A larger change can be split in two.
constexpr std::size_t change_to_variables = 2;

Error too_large(const std::string& what, std::size_t bytes, std::size_t limit) {
  return {ErrorCode::TooLarge, what + " " + std::to_string(bytes) +
                                   " bytes in total, as compact JSON; at most " + std::to_string(limit) +
                                   " fit"};
}

Status check_variable(const Members::Member& variable, const TaskOptions& options) {
  const auto& name = variable.name;
  const auto most = " bytes; at most " + std::to_string(options.max_string_bytes) + " fit";
  if (name.size() > options.max_string_bytes) {
    return Error(ErrorCode::TooLarge, "a variable's name has " + std::to_string(name.size()) + most);
  }
  if (variable.measure.nesting > options.max_variable_depth) {
    return Error(ErrorCode::TooDeep, "the variable " + name + " nests more than " +
                                         std::to_string(options.max_variable_depth) +
                                         " containers; make it flatter");
  }
  if (const auto bytes = variable.measure.longest_string; bytes > options.max_string_bytes) {
    return Error(ErrorCode::TooLarge,
                 "the variable " + name + " contains a string of " + std::to_string(bytes) + most);
  }
  return Ok{};
}

}  // namespace

std::size_t nesting(std::string_view json) {
  return core::measure(json).nesting;
}

Status check_result(const Json& result) {
  if (nesting(result.str()) <= max_result_nesting) return Ok{};
  return Error(ErrorCode::TooDeep, "the result nests more than " + std::to_string(max_result_nesting) +
                                       " containers; make it flatter");
}

std::string storable_message(std::string_view message, const TaskOptions& options) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::string stored;
  while (!message.empty()) {
    const auto bytes = core::code_point_bytes(message);
    const auto next = bytes > 0 ? message.substr(0, bytes) : replacement;
    if (stored.size() + next.size() > options.max_string_bytes) break;
    stored += next;
    message.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return stored;
}

Result<Members> checked_variables(const Json& changes, const TaskOptions& options) {
  if (!changes.is_object()) {
    return Error(ErrorCode::InvalidArgument, "variables must be a JSON object of names and values");
  }
  // Checked before anything that costs more than one pass over the bytes.
  if (const auto bytes = core::measure(changes.str()).compact_bytes;
      bytes / change_to_variables > options.max_variables_bytes) {
    return too_large("the variables of one change are", bytes,
                     change_to_variables * options.max_variables_bytes);
  }
  auto checked = Members::of(Json::unchecked(compact(changes.str())));
  for (const auto& variable : checked.all()) {
    if (const auto good = check_variable(variable, options); !good) return good.error();
  }
  return checked;
}

Status check_size(const Members& variables, const TaskOptions& options) {
  const auto bytes = variables.compact_bytes();
  if (bytes <= options.max_variables_bytes) return Ok{};
  return too_large("the task's variables would be", bytes, options.max_variables_bytes);
}

}  // namespace holdfast::tasks

namespace holdfast {

Result<std::size_t> variable_bytes(std::string_view name, const Json& value, const TaskOptions& options) {
  std::string object = "{";
  tasks::add_member(object, name, value.str());
  object += '}';
  const auto members = tasks::Members::of(Json::unchecked(std::move(object)));
  const auto& variable = members.all().front();
  if (const auto good = tasks::check_variable(variable, options); !good) return good.error();
  return variable.compact_bytes + 1;
}

}  // namespace holdfast
