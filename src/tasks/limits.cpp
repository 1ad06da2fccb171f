#include "tasks/limits.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace holdfast::tasks {
namespace {

/// Calls `visit(literal)` for every string in valid JSON, names included, quotes included, and
/// `visit_other(c)` for what is outside of strings. Not recursive.
template <class Visit, class VisitOther>
void walk(std::string_view json, Visit&& visit, VisitOther&& visit_other) {
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '"') {
      visit_other(json[i]);
      continue;
    }
    const auto begin = i;
    for (++i; json[i] != '"'; ++i) {
      if (json[i] == '\\') ++i;
    }
    visit(json.substr(begin, i + 1 - begin));
  }
}

std::size_t longest_string(std::string_view json, std::size_t limit) {
  std::size_t longest = 0;
  walk(
      json,
      [&](std::string_view literal) {
        // Escapes make it longer as text than it is: what is short as text is short.
        const auto bytes = literal.size() - 2;
        longest = std::max(longest,
                           bytes <= limit ? bytes : nlohmann::json::parse(literal).get<std::string>().size());
      },
      [](char) {});
  return longest;
}

}  // namespace

std::size_t nesting(std::string_view json) noexcept {
  std::size_t open = 0;
  std::size_t most = 0;
  walk(
      json, [](std::string_view) {},
      [&](char c) {
        if (c == '{' || c == '[') most = std::max(most, ++open);
        if (c == '}' || c == ']') --open;
      });
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
  auto members = Members::of(changes);
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
    if (const auto bytes = longest_string(value, options.max_string_bytes);
        bytes > options.max_string_bytes) {
      return Error(ErrorCode::TooLarge, "the variable " + name + " contains a string of " +
                                            std::to_string(bytes) + " bytes; at most " +
                                            std::to_string(options.max_string_bytes) + " fit");
    }
  }
  return members;
}

Status check_size(const Members& variables, const TaskOptions& options) {
  const auto bytes = variables.text().size();
  if (bytes <= options.max_variables_bytes) return Ok{};
  return Error(ErrorCode::TooLarge, "the task's variables would be " + std::to_string(bytes) +
                                        " bytes together; at most " +
                                        std::to_string(options.max_variables_bytes) + " fit");
}

}  // namespace holdfast::tasks
