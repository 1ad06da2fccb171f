#include "execute.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace holdfast::cli {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const auto& one : strings) result.push_back(const_cast<char*>(one.c_str()));  // execve changes nothing
  result.push_back(nullptr);
  return result;
}

std::string_view variable_name(std::string_view assignment) {
  return assignment.substr(0, assignment.find('='));
}

/// Our environment with `additions` in place of variables of the same name.
std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> result = additions;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    bool replaced = false;
    for (const auto& addition : additions) replaced |= variable_name(addition) == variable_name(*at);
    if (!replaced) result.emplace_back(*at);
  }
  return result;
}

}  // namespace

int execute(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const auto merged = merged_environment(environment);
  const auto arguments = pointers(command);
  const auto variables = pointers(merged);
  const std::string& name = command.front();
  if (name.empty()) return ENOENT;
  if (name.find('/') != std::string::npos) {
    execve(name.c_str(), arguments.data(), variables.data());
    return errno;
  }

  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  int failure = ENOENT;
  while (true) {
    const auto end = rest.find(':');
    const auto directory = rest.substr(0, end);
    const auto file = directory.empty() ? name : std::string(directory) + "/" + name;
    execve(file.c_str(), arguments.data(), variables.data());
    // A directory without it, or that cannot be searched, is passed over; a file that was found and cannot
    // be run is the answer unless a later directory has a better one.
    if (errno == EACCES) {
      failure = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      return errno;
    }
    if (end == std::string_view::npos) return failure;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace holdfast::cli
