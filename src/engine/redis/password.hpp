#pragma once

#include <filesystem>
#include <holdfast/result.hpp>
#include <string>

namespace holdfast::redis {

/// The environment variable for the password if the URL has none.
inline constexpr const char* password_variable = "HOLDFAST_REDIS_PASSWORD";
/// The same for the sentinels' password.
inline constexpr const char* sentinel_password_variable = "HOLDFAST_SENTINEL_PASSWORD";

/// The one line of the file, without its line end. Errors name the file and the parameter that named it,
/// never its content: InvalidArgument if it is not one line, else the read error.
[[nodiscard]] Result<std::string> password_in(const std::filesystem::path& file,
                                              const std::string& parameter = "password_file");

/// Empty if there is none.
[[nodiscard]] std::string password_in_environment(const char* variable = password_variable);

}  // namespace holdfast::redis
