#include "engine/redis/password.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "os/errno_error.hpp"

namespace holdfast::redis {
namespace {

/// No password is longer; a longer file was named by mistake.
constexpr std::size_t longest_file = 4096;

}  // namespace

Result<std::string> password_in(const std::filesystem::path& file, const std::string& parameter) {
  const auto unusable = [&](const std::string& why_and_what_to_do) {
    return Error(ErrorCode::InvalidArgument,
                 "cannot use " + parameter + " " + file.string() + ": " + why_and_what_to_do);
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return unusable("it is a directory; use a file");
  errno = 0;
  std::ifstream input(file, std::ios::binary);
  if (!input && (errno == ENOENT || errno == ENOTDIR)) return unusable("it does not exist");
  if (!input) {
    return os::errno_error("cannot read " + parameter + " " + file.string() + "; check its owner and mode");
  }
  std::array<char, longest_file + 1> buffer{};
  input.read(buffer.data(), buffer.size());
  if (input.bad()) return os::errno_error("cannot read " + parameter + " " + file.string());
  std::string text(buffer.data(), static_cast<std::size_t>(input.gcount()));
  if (text.size() > longest_file) return unusable("it is larger than 4096 bytes; check the path");
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) return unusable("it is empty; write the password into it");
  if (text.find_first_of(std::string_view("\n\r\0", 3)) != std::string::npos) {
    return unusable("it must contain only the password, on one line");
  }
  return text;
}

std::string password_in_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

}  // namespace holdfast::redis
