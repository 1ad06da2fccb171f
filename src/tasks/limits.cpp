#include "tasks/limits.hpp"

#include <algorithm>

#include "tasks/compact_json.hpp"

namespace holdfast::tasks {
namespace {

/// A change may have so many times the bytes that all variables may have together: it may delete some, and
/// `"n":null` is longer than the shortest variable. A larger one can be made in two.
constexpr std::size_t change_to_variables = 2;

Error too_large(const std::string& what, std::size_t bytes, std::size_t limit) {
  return {ErrorCode::TooLarge, what + " " + std::to_string(bytes) +
                                   " bytes together, as JSON without spaces and needless escapes; at most " +
                                   std::to_string(limit) + " fit"};
}

}  // namespace

std::size_t nesting(std::string_view json) noexcept {
  std::size_t open = 0;
  std::size_t most = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '{' || c == '[') most = std::max(most, ++open);
    if (c == '}' || c == ']') --open;
  }
  return most;
}

Status check_result(const Json& result) {
  if (nesting(result.str()) <= max_result_nesting) return Ok{};
  return Error(ErrorCode::TooDeep, "the result nests more than " + std::to_string(max_result_nesting) +
                                       " containers; make it flatter");
}

Result<Members> checked_variables(const Json& changes, const TaskOptions& options) {
  if (!changes.is_object()) {
    return Error(ErrorCode::InvalidArgument, "variables are given as a JSON object of names and values");
  }
  // Before anything that costs more than a look at each byte.
  if (const auto bytes = compact_bytes(changes.str());
      bytes / change_to_variables > options.max_variables_bytes) {
    return too_large("the variables of one change are", bytes,
                     change_to_variables * options.max_variables_bytes);
  }
  Members checked;
  const auto members = Members::of(changes);
  for (const auto& [name, value] : members.all()) {
    if (name.size() > options.max_string_bytes) {
      return Error(ErrorCode::TooLarge, "a variable's name of " + std::to_string(name.size()) +
                                            " bytes is too long; at most " +
                                            std::to_string(options.max_string_bytes) + " fit");
    }
    if (nesting(value) > options.max_variable_depth) {
      return Error(ErrorCode::TooDeep, "the variable " + name + " nests more than " +
                                           std::to_string(options.max_variable_depth) +
                                           " containers; make it flatter");
    }
    if (const auto bytes = longest_string_bytes(value); bytes > options.max_string_bytes) {
      return Error(ErrorCode::TooLarge, "the variable " + name + " contains a string of " +
                                            std::to_string(bytes) + " bytes; at most " +
                                            std::to_string(options.max_string_bytes) + " fit");
    }
    checked.set(name, compact(value));
  }
  return checked;
}

Status check_size(const Members& variables, const TaskOptions& options) {
  const auto bytes = compact_bytes(variables.text());
  if (bytes <= options.max_variables_bytes) return Ok{};
  return too_large("the task's variables would be", bytes, options.max_variables_bytes);
}

}  // namespace holdfast::tasks
