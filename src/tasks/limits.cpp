#include "tasks/limits.hpp"

#include <algorithm>

namespace holdfast::tasks {
namespace {

using nlohmann::ordered_json;

Error too_long(std::string_view where, std::size_t bytes, std::size_t limit) {
  return {ErrorCode::TooLarge, "the variable " + std::string(where) + " contains a string of " +
                                   std::to_string(bytes) + " bytes; at most " + std::to_string(limit) +
                                   " fit"};
}

/// Recursion ends with `room`.
Status check_value(std::string_view name, const ordered_json& value, std::size_t room,
                   const TaskOptions& options) {
  if (value.is_string()) {
    const auto bytes = value.get_ref<const std::string&>().size();
    if (bytes > options.max_string_bytes) return too_long(name, bytes, options.max_string_bytes);
  }
  if (!value.is_structured()) return Ok{};
  if (room == 0) {
    return Error(ErrorCode::TooDeep, "the variable " + std::string(name) + " nests more than " +
                                         std::to_string(options.max_variable_depth) +
                                         " containers; make it flatter");
  }
  for (const auto& item : value.items()) {
    if (value.is_object() && item.key().size() > options.max_string_bytes) {
      return too_long(name, item.key().size(), options.max_string_bytes);
    }
    if (auto status = check_value(name, item.value(), room - 1, options); !status) return status;
  }
  return Ok{};
}

}  // namespace

std::size_t nesting(std::string_view json) noexcept {
  std::size_t open = 0;
  std::size_t most = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      most = std::max(most, ++open);
    } else if (c == '}' || c == ']') {
      --open;
    }
  }
  return most;
}

Result<ordered_json> parsed(const Json& json, std::string_view what) {
  if (nesting(json.str()) > max_nesting) {
    return Error(ErrorCode::TooDeep, std::string(what) + " nests more than " + std::to_string(max_nesting) +
                                         " containers; make it flatter");
  }
  return ordered_json::parse(json.str());
}

Status check_variables(const ordered_json& changes, const TaskOptions& options) {
  if (!changes.is_object()) {
    return Error(ErrorCode::InvalidArgument, "variables are given as a JSON object of names and values");
  }
  for (const auto& variable : changes.items()) {
    const auto& name = variable.key();
    if (name.size() > options.max_string_bytes) {
      return Error(ErrorCode::TooLarge, "a variable's name of " + std::to_string(name.size()) +
                                            " bytes is too long; at most " +
                                            std::to_string(options.max_string_bytes) + " fit");
    }
    if (auto status = check_value(name, variable.value(), options.max_variable_depth, options); !status) {
      return status;
    }
  }
  return Ok{};
}

Status check_size(const ordered_json& variables, const TaskOptions& options) {
  const auto bytes = variables.dump().size();
  if (bytes <= options.max_variables_bytes) return Ok{};
  return Error(ErrorCode::TooLarge, "the task's variables would be " + std::to_string(bytes) +
                                        " bytes together; at most " +
                                        std::to_string(options.max_variables_bytes) + " fit");
}

}  // namespace holdfast::tasks
