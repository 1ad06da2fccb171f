#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <holdfast/result.hpp>
#include <optional>
#include <string>

namespace holdfast::sqlite {

/// Users of one machine share its locks if they share this directory's group.
inline constexpr const char* system_group = "holdfast";

/// Why a directory cannot hold the locks of a whole machine, and what to do about it; nothing if it can.
/// It must be root's, so that no user can replace the file, and what is created there must be its group's.
/// Pure.
[[nodiscard]] std::optional<std::string> objection_to_directory(const std::filesystem::path& directory,
                                                                const struct stat& info);

/// The same for the file there, if that is to be shared by the directory's group.
[[nodiscard]] std::optional<std::string> objection_to_file(const std::filesystem::path& file,
                                                           const struct stat& info,
                                                           const struct stat& directory);

/// The commands, for root, that make a directory which a group shares.
[[nodiscard]] std::string how_to_share(const std::filesystem::path& directory);

/// What prepare_system_sqlite_file() does, for a file of any name.
[[nodiscard]] Status prepare_shared_file(const std::filesystem::path& file);

/// Returns the error with which that would fail, without changing anything. The file itself may be missing.
[[nodiscard]] Status check_shared_file(const std::filesystem::path& file);

}  // namespace holdfast::sqlite
