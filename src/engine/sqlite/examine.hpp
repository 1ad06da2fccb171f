#pragma once

#include <filesystem>
#include <holdfast/doctor.hpp>

namespace holdfast::sqlite {

/// Examines a database file as `holdfast::examine` does. Creates nothing.
[[nodiscard]] Result<std::vector<Finding>> examine(const std::filesystem::path& file);

}  // namespace holdfast::sqlite
