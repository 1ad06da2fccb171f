#pragma once

#include <filesystem>
#include <holdfast/result.hpp>
#include <string>

namespace holdfast::redis {

/// Where a password is looked for when the URL has none.
inline constexpr const char* password_variable = "HOLDFAST_REDIS_PASSWORD";

/// The one line of the file, its end dropped. Errors name the file and never what is in it: InvalidArgument
/// if it is not one line, else what keeps us from reading it.
[[nodiscard]] Result<std::string> password_in(const std::filesystem::path& file);

/// Empty if there is none.
[[nodiscard]] std::string password_in_environment();

}  // namespace holdfast::redis
