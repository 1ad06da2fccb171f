#include "arguments/values.hpp"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <holdfast/duration.hpp>
#include <iostream>
#include <iterator>
#include <set>

#include "rpc/json/text.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void refuse(std::string_view option, std::string_view text, const std::string& why) {
  throw UsageError(std::string(option) + ": " + quote(text) + " " + why);
}

/// Finds "line 1, column 6" in the parser's message; empty if it is not there.
std::string place_of_error(std::string_view cause) {
  const auto start = cause.find("line ");
  if (start == std::string_view::npos) return {};
  const auto end = cause.find_first_not_of("line coumn,0123456789", start);
  return std::string(cause.substr(start, end - start));
}

}  // namespace

milliseconds parse_duration(std::string_view option, std::string_view text) {
  const auto length = holdfast::parse_duration(text);
  if (!length) refuse(option, text, length.error().message());
  return *length;
}

milliseconds parse_positive_duration(std::string_view option, std::string_view text) {
  const auto length = parse_duration(option, text);
  if (length == milliseconds::zero()) refuse(option, text, "must be more than zero");
  return length;
}

Fence parse_fence(std::string_view option, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) {
    if (const auto fence = Fence::of(value)) return *fence;
  }
  refuse(option, text, "is not a valid fence; use 15 digits (000000000000042) or a plain number (42)");
}

Json parse_json_argument(std::string_view option, std::string_view text) {
  auto json = Json::parse(text);
  if (json) return *std::move(json);
  const auto start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) {
    throw UsageError(std::string(option) +
                     ": is empty, which is not valid JSON. Use null, or '\"\"' for an empty string");
  }
  std::string advice =
      "put names and strings in double quotes, and the whole value in single quotes for the shell";
  if (text[start] == '{' || text[start] == '[') {
    // The parser counts from there.
    if (const auto place = place_of_error(json.error().cause()); start == 0 && !place.empty()) {
      advice = "error at " + place + "; " + advice;
    }
  } else if (const auto as_text = Json::string(text); as_text && text.size() <= 60) {
    advice = "for a string, write " + shell_word(as_text->str());
  }
  refuse(option, text.substr(0, 100), "is not valid JSON; " + advice);
}

Json read_json_argument(std::string_view option, std::string_view text) {
  if (text != "-") return parse_json_argument(option, text);
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  check_standard_input(option);
  return parse_json_argument("standard input", input);
}

void check_standard_input(std::string_view reader) {
  if (std::ferror(stdin) == 0 && !std::cin.bad()) return;
  const std::string cause = std::strerror(errno);
  throw Error(ErrorCode::Internal, std::string(reader) + ": standard input cannot be read to its end", cause);
}

TaskStatus parse_status_argument(std::string_view text) {
  if (const auto status = parse_task_status(text)) return *status;
  throw UsageError(quote(text) +
                   " is not a task status; use working, input_required, completed, failed (dead letters are) "
                   "or cancelled");
}

std::optional<std::pair<std::string, std::string>> split_assignment(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  return std::pair{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Json parse_assignments(const std::vector<std::string>& assignments) {
  rpc::JsonObject object;
  std::set<std::string> names;
  for (const auto& text : assignments) {
    const auto assignment = split_assignment(text);
    if (!assignment) {
      throw UsageError(quote(text) + " is not an assignment; write NAME=JSON, for example progress=0.5");
    }
    const auto& [name, value] = *assignment;
    if (!Json::string(name)) throw UsageError("the name " + quote(name) + " is not UTF-8");
    if (!names.insert(name).second) throw UsageError(quote(name) + " is given twice");
    object.add(name, parse_json_argument(name + "=", value).str());
  }
  return object.json();
}

}  // namespace holdfast::cli
